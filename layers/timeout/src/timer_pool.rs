//! Timers that are kept for the next wait.

use std::pin::Pin;
use std::sync::{Mutex, TryLockError};

use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, Sleep, sleep_until};
use vmcp_core::PerLane;

/// The most timers that an event loop keeps. Each may keep what waited on it last in memory until it fires.
const MAX_TIMERS: usize = 128;

/// Timers of one runtime that nobody waits on.
///
/// Entering a timer and taking it out again goes through a lock that all workers share, for a wait that
/// hardly ever ends by it. What is kept stays entered: its next user only moves it when it fires too
/// early, which is once in the time that it stands for.
#[derive(Debug)]
pub(crate) struct TimerPool(PerLane<Mutex<PooledTimers>>);

#[derive(Debug, Default)]
struct PooledTimers {
    /// A timer outlives its runtime only to panic.
    runtime: Option<Id>,
    timers: Vec<Pin<Box<Sleep>>>,
}

impl Default for TimerPool {
    fn default() -> Self {
        Self(PerLane::new())
    }
}

impl TimerPool {
    /// A timer that stands at `deadline`, or at another time.
    pub(crate) fn take(&self, deadline: Instant) -> Pin<Box<Sleep>> {
        self.pooled().unwrap_or_else(|| Box::pin(sleep_until(deadline)))
    }

    fn pooled(&self) -> Option<Pin<Box<Sleep>>> {
        self.with(|pooled| pooled.timers.pop())?
    }

    /// Keeps a timer, unless there are enough.
    pub(crate) fn put(&self, timer: Pin<Box<Sleep>>) {
        // One that has fired is not entered any more.
        if timer.is_elapsed() {
            return;
        }
        self.with(|pooled| {
            if pooled.timers.len() < MAX_TIMERS {
                pooled.timers.push(timer);
            }
        });
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.with(|pooled| pooled.timers.len()).unwrap_or_default()
    }

    /// `None` when somebody else is at it, or outside of a runtime: a timer more or less is not worth a wait.
    fn with<T>(&self, act: impl FnOnce(&mut PooledTimers) -> T) -> Option<T> {
        let mut pooled = match self.0.mine().try_lock() {
            Ok(pooled) => pooled,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let runtime = Handle::try_current().ok()?.id();
        if pooled.runtime != Some(runtime) {
            pooled.runtime = Some(runtime);
            pooled.timers.clear();
        }
        Some(act(&mut pooled))
    }
}
