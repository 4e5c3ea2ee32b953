//! A pool of timers.

use std::pin::Pin;
use std::sync::{Mutex, TryLockError};

use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, Sleep, sleep_until};
use vmcp_core::PerWorker;

/// The most timers of an event loop. Each may keep the memory of its last task alive until it fires.
const MAX_TIMERS: usize = 128;

/// Pool of unused timers, one for each worker thread.
///
/// Registering a timer with the runtime takes a lock that all workers share, for a wait that hardly ever elapses. A
/// pooled timer stays registered: its next user moves it only if it fires too early, which happens once in a timeout.
#[derive(Debug)]
pub(crate) struct TimerPool(PerWorker<Mutex<PooledTimers>>);

#[derive(Debug, Default)]
struct PooledTimers {
    /// The runtime of the timers. Polling a timer after the end of its runtime panics.
    runtime: Option<Id>,
    timers: Vec<Pin<Box<Sleep>>>,
}

impl Default for TimerPool {
    fn default() -> Self {
        Self(PerWorker::new())
    }
}

impl TimerPool {
    /// Returns a timer that is set to `deadline` or to any other time.
    pub(crate) fn take(&self, deadline: Instant) -> Pin<Box<Sleep>> {
        self.pooled().unwrap_or_else(|| Box::pin(sleep_until(deadline)))
    }

    fn pooled(&self) -> Option<Pin<Box<Sleep>>> {
        self.with(|pooled| pooled.timers.pop())?
    }

    /// Returns a timer to the pool, unless the pool is full.
    pub(crate) fn put(&self, timer: Pin<Box<Sleep>>) {
        // An elapsed timer is no longer registered with the runtime.
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

    /// Returns `None` outside of a runtime or if the lock is contended: waiting costs more than a new timer.
    fn with<T>(&self, act: impl FnOnce(&mut PooledTimers) -> T) -> Option<T> {
        let mut pooled = match self.0.local().try_lock() {
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
