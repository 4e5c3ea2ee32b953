//! Control over the timeout of a request in flight.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::time::Instant;

/// Request extension that pauses or disables the timeout of a request. Clones control the same request.
#[derive(Clone, Debug, Default)]
pub struct TimeoutControl(Arc<Inner>);

/// Guard of a pause: the timeout is paused until the guard is dropped.
#[derive(Debug)]
pub struct PauseGuard(TimeoutControl);

#[derive(Debug, Default)]
struct Inner {
    /// Set by the first pause and never cleared. Stored with `Release` under the lock; the `Acquire` load spares
    /// requests without a pause the lock.
    paused: AtomicBool,
    state: Mutex<PauseState>,
}

#[derive(Debug, Default)]
struct PauseState {
    pauses: usize,
    /// Start of the current pause.
    since: Option<Instant>,
    /// Duration of all earlier pauses.
    total: Duration,
    /// Wakers of expired timers that wait for the end of the pause.
    waiting: Vec<Waker>,
}

impl TimeoutControl {
    /// Creates a control without a pause.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Pauses the timeout. Pauses may overlap.
    #[must_use]
    pub fn pause(&self) -> PauseGuard {
        self.disable();
        PauseGuard(self.clone())
    }

    /// Disables the timeout, for streams that may be silent for any time.
    pub fn disable(&self) {
        let mut state = self.lock();
        state.pauses += 1;
        state.since.get_or_insert_with(Instant::now);
        self.0.paused.store(true, Ordering::Release);
    }

    /// Returns the duration of all pauses until now.
    pub(crate) fn paused(&self) -> Duration {
        if self.0.paused.load(Ordering::Acquire) { self.lock().paused() } else { Duration::ZERO }
    }

    /// Returns the duration of all pauses, or `None` during a pause, after which `cx` is woken.
    pub(crate) fn poll_resumed(&self, cx: &Context<'_>) -> Option<Duration> {
        if !self.0.paused.load(Ordering::Acquire) {
            return Some(Duration::ZERO);
        }
        let mut state = self.lock();
        if state.pauses == 0 {
            return Some(state.paused());
        }
        if !state.waiting.iter().any(|known| known.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, PauseState> {
        vmcp_core::lock(&self.0.state)
    }
}

impl PauseState {
    fn paused(&self) -> Duration {
        self.total + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Drop for PauseGuard {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.pauses -= 1;
        if state.pauses > 0 {
            return;
        }
        (state.total, state.since) = (state.paused(), None);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}
