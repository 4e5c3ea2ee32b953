//! Change signals for the tasks that observe a backend.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use vmcp_core::Generation;

use crate::backend::BackendHandle;
use crate::catalog::{Kind, other};
use vmcp_core::lock;

/// Polling interval for a backend that does not send change notifications.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum burst of polls, however many changes the backend reports; further polls are limited to one each [`MIN_POLL_INTERVAL`].
const MAX_POLL_BURST: u32 = 32;

/// Interval between polls beyond the burst of [`MAX_POLL_BURST`].
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Change signal for one generation of a backend. It wakes the observer at once or, if the observer is busy, at its next wait.
#[derive(Debug, Default)]
pub(crate) struct ObserverSignal {
    refresh: Notify,
    changed: Notify,
    /// Bit set of changed kinds of lists. Set before `changed` is notified, so the woken observer finds them.
    kinds: AtomicU8,
    /// Theoretical arrival time of the next poll: that of the last one plus [`MIN_POLL_INTERVAL`]. `None` before the first.
    theoretical_arrival: Mutex<Option<Instant>>,
}

impl ObserverSignal {
    /// Marks a list as changed and wakes the observer.
    pub(crate) fn set_changed(&self, kind: Kind) {
        self.kinds.fetch_or(1 << kind as u8, Ordering::AcqRel);
        self.changed.notify_one();
    }

    fn take(&self) -> Vec<Kind> {
        let kinds = self.kinds.swap(0, Ordering::AcqRel);
        Kind::ALL.into_iter().filter(|kind| kinds >> *kind as u8 & 1 == 1).collect()
    }

    /// Waits until the backend has reported changed lists and the rate limit permits a poll. Changes reported meanwhile are
    /// merged. Dropping the future loses none.
    pub(crate) async fn changed(&self) -> Vec<Kind> {
        while self.kinds.load(Ordering::Acquire) == 0 {
            self.changed.notified().await;
        }
        self.rest().await;
        self.take()
    }

    /// Waits until the rate limit permits a poll, and counts it (generic cell rate algorithm).
    async fn rest(&self) {
        let room = MIN_POLL_INTERVAL * (MAX_POLL_BURST - 1);
        let arrival = *lock(&self.theoretical_arrival);
        if let Some(next) = arrival.and_then(|arrival| arrival.checked_sub(room)) {
            sleep_until(next).await;
        }
        let now = Instant::now();
        let mut arrival = lock(&self.theoretical_arrival);
        *arrival = Some(arrival.map_or(now, |arrival| arrival.max(now)) + MIN_POLL_INTERVAL);
    }

    /// Waits for a reason to poll all lists: the interval, a suspected change or a reported one.
    pub(crate) async fn next_poll(&self) {
        tokio::select! {
            () = sleep(POLL_INTERVAL) => {}
            () = self.refresh.notified() => {}
            () = self.changed.notified() => {}
        }
        self.rest().await;
        self.take();
    }
}

impl BackendHandle {
    pub(crate) fn signal(&self, generation: Generation) -> &ObserverSignal {
        match generation {
            Generation::Stateful => &self.signals[0],
            Generation::Stateless => &self.signals[1],
        }
    }

    /// Wakes polling observers because the known offer may be out of date.
    pub(crate) fn refresh(&self) {
        self.signals.iter().for_each(|signal| signal.refresh.notify_one());
    }

    /// Waits for a signal that ends the pause of an observer.
    pub(crate) async fn refresh_requested(&self) {
        let [stateful, stateless] = &self.signals;
        tokio::select! {
            () = stateful.refresh.notified() => {}
            () = stateless.refresh.notified() => {}
        }
    }

    /// Requests a fetch of a list whose change was reported outside of the observer's stream.
    pub(crate) fn list_changed(&self, kind: Kind, generation: Generation) {
        self.signal(generation).set_changed(kind);
        self.other_changed(generation);
    }

    /// Requests a poll of the other generation, unless its own stream reports changes.
    pub(crate) fn other_changed(&self, generation: Generation) {
        self.signal(other(generation)).refresh.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn polls_once_a_second_after_burst() {
        let signal = ObserverSignal::default();
        let began = Instant::now();
        for _ in 0..MAX_POLL_BURST {
            signal.set_changed(Kind::Tools);
            assert_eq!(signal.changed().await, [Kind::Tools]);
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        for second in 1..4 {
            signal.set_changed(Kind::Tools);
            signal.set_changed(Kind::Prompts);
            assert_eq!(signal.changed().await, [Kind::Tools, Kind::Prompts]);
            assert_eq!(began.elapsed(), Duration::from_secs(second));
        }
    }
}
