//! Reasons to look at a backend again, for the tasks that observe it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use vmcp_core::Generation;

use super::Link;
use crate::catalog::{Kind, other};
use crate::session::lock;

/// The interval between two looks at a backend that doesn't tell of changes.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// The most looks at a backend in a row, whatever it says of changes: beyond, one each [`LOOK_INTERVAL`].
const MAX_LOOKS: u32 = 32;

/// See [`MAX_LOOKS`].
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Reasons to look at one generation of a backend again. Each wakes its observer at once or, while that is busy, as soon
/// as it waits.
#[derive(Debug, Default)]
pub(crate) struct ObserverSignal {
    doubt: Notify,
    changed: Notify,
    /// The kinds of lists that have changed, one bit each. Set before `changed` is notified, so the observer that it
    /// wakes finds them.
    kinds: AtomicU8,
    /// Theoretical arrival time of the next look: the last one's plus [`LOOK_INTERVAL`]. `None` before the first.
    theoretical_arrival: Mutex<Option<Instant>>,
}

impl ObserverSignal {
    /// Has a list looked at again.
    pub(super) fn set_changed(&self, kind: Kind) {
        self.kinds.fetch_or(1 << kind as u8, Ordering::AcqRel);
        self.changed.notify_one();
    }

    fn take(&self) -> Vec<Kind> {
        let kinds = self.kinds.swap(0, Ordering::AcqRel);
        Kind::ALL.into_iter().filter(|kind| kinds >> *kind as u8 & 1 == 1).collect()
    }

    /// Waits until the backend has said that lists have changed, and until another look is allowed. What it says meanwhile is
    /// one change. Dropping the future loses nothing.
    pub(crate) async fn changed(&self) -> Vec<Kind> {
        while self.kinds.load(Ordering::Acquire) == 0 {
            self.changed.notified().await;
        }
        self.rest().await;
        self.take()
    }

    /// Waits until another look is allowed, and begins it (generic cell rate algorithm).
    async fn rest(&self) {
        let room = LOOK_INTERVAL * (MAX_LOOKS - 1);
        let arrival = *lock(&self.theoretical_arrival);
        if let Some(next) = arrival.and_then(|arrival| arrival.checked_sub(room)) {
            sleep_until(next).await;
        }
        let now = Instant::now();
        let mut arrival = lock(&self.theoretical_arrival);
        *arrival = Some(arrival.map_or(now, |arrival| arrival.max(now)) + LOOK_INTERVAL);
    }

    /// Waits for a reason to look at everything again: the interval, a doubt or a change.
    pub(crate) async fn next_poll(&self) {
        tokio::select! {
            () = sleep(POLL_INTERVAL) => {}
            () = self.doubt.notified() => {}
            () = self.changed.notified() => {}
        }
        self.rest().await;
        self.take();
    }
}

impl Link {
    pub(crate) fn signal(&self, generation: Generation) -> &ObserverSignal {
        match generation {
            Generation::Stateful => &self.signals[0],
            Generation::Stateless => &self.signals[1],
        }
    }

    /// Has observers that poll look now: what is known may be out of date.
    pub(crate) fn nudge(&self) {
        self.signals.iter().for_each(|signal| signal.doubt.notify_one());
    }

    /// Waits until an observer that has given up for a while need not wait any longer.
    pub(super) async fn nudged(&self) {
        let [stateful, stateless] = &self.signals;
        tokio::select! {
            () = stateful.doubt.notified() => {}
            () = stateless.doubt.notified() => {}
        }
    }

    /// Has a list fetched again that changed according to a message which is not on the observer's stream.
    pub(crate) fn list_changed(&self, kind: Kind, generation: Generation) {
        self.signal(generation).set_changed(kind);
        self.other_changed(generation);
    }

    /// Has the other generation looked at as well, unless its own stream tells of its changes.
    pub(crate) fn other_changed(&self, generation: Generation) {
        self.signal(other(generation)).doubt.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn looks_once_a_second_after_a_storm() {
        let signal = ObserverSignal::default();
        let began = Instant::now();
        for _ in 0..MAX_LOOKS {
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
