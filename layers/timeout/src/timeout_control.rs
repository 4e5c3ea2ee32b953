//! Stops a request's time while somebody else than the backend is awaited.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::time::Instant;

/// Put into a request's extensions, it lets whoever keeps a clone stop that request's time.
///
/// The time that is left when it is stopped is left when it goes on.
#[derive(Clone, Debug, Default)]
pub struct TimeoutControl(Arc<Inner>);

/// The time stands still until this is dropped.
#[derive(Debug)]
pub struct PauseGuard(TimeoutControl);

#[derive(Debug, Default)]
struct Inner {
    /// Whether there ever was a pause. Written under the lock; most requests see none, and take no lock.
    paused: AtomicBool,
    state: Mutex<PauseState>,
}

#[derive(Debug, Default)]
struct PauseState {
    pauses: usize,
    /// Since when there is a pause.
    since: Option<Instant>,
    /// How long the pauses before that took together.
    total: Duration,
    /// Clocks that have run out and wait for the end of the pause.
    waiting: Vec<Waker>,
}

impl TimeoutControl {
    /// A hold without a pause.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the time. Several pauses may overlap.
    #[must_use]
    pub fn pause(&self) -> PauseGuard {
        self.disable();
        PauseGuard(self.clone())
    }

    /// Stops the time for good: for streams that may be silent for as long as they like.
    pub fn disable(&self) {
        let mut state = self.lock();
        state.pauses += 1;
        state.since.get_or_insert_with(Instant::now);
        self.0.paused.store(true, Ordering::Release);
    }

    /// How long the time was stopped until now, all pauses together.
    pub(crate) fn paused(&self) -> Duration {
        if self.0.paused.load(Ordering::Acquire) { self.lock().paused() } else { Duration::ZERO }
    }

    /// The same; `None` while the time stands still, at whose end `cx` is woken.
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
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PauseState {
    fn paused(&self) -> Duration {
        self.total + self.since.map(|since| since.elapsed()).unwrap_or_default()
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
