//! The activity of one connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::time::Instant;

use super::wake_filter::FilteringWaker;

/// The value of a connection that answers a request.
const BUSY: u64 = 0;

/// Activity of one connection: since when it has been idle, and whether it is evicted. A clone is the same connection.
#[derive(Clone, Debug)]
pub(crate) struct Activity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Start of the time scale.
    epoch: Instant,
    /// Nanoseconds after `epoch` since when no request is under way, or [`BUSY`]. Written by the connection's task alone.
    idle_since: AtomicU64,
    /// Set once, when another connection takes the place of this one. The connection closes when it is idle.
    is_evicted: AtomicBool,
    task_waker: Arc<FilteringWaker>,
}

impl Activity {
    /// A new connection, which is idle.
    pub(crate) fn new(epoch: Instant) -> Self {
        let (idle_since, is_evicted) = (AtomicU64::new(BUSY), AtomicBool::new(false));
        let this =
            Self(Arc::new(Inner { epoch, idle_since, is_evicted, task_waker: Arc::default() }));
        this.set_idle_since(Instant::now());
        this
    }

    /// Returns the waker of the connection's task.
    pub(crate) fn task_waker(&self) -> &Arc<FilteringWaker> {
        &self.0.task_waker
    }

    /// Notes that the connection waits for the head of a request.
    pub(crate) fn set_idle_since(&self, at: Instant) {
        // Relaxed, as all of these: a choice among connections, which guards no other memory.
        self.0.idle_since.store(self.to_nanos(at), Ordering::Relaxed);
    }

    /// Notes that the connection answers a request.
    pub(crate) fn set_busy(&self) {
        self.0.idle_since.store(BUSY, Ordering::Relaxed);
    }

    /// A time as [`idle_since`](Self::idle_since) tells it.
    pub(crate) fn to_nanos(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.0.epoch);
        let nanos = since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos());
        nanos.max(BUSY + 1)
    }

    /// The time since when it is idle, as a number that is less for an earlier time. `None` while it answers a request.
    pub(crate) fn idle_since(&self) -> Option<u64> {
        Some(self.0.idle_since.load(Ordering::Relaxed)).filter(|since| *since != BUSY)
    }

    /// Has the connection closed, at once if it is idle, else after the request that it answers.
    pub(crate) fn evict(&self) {
        self.0.is_evicted.store(true, Ordering::Release);
        self.0.task_waker.wake_task();
    }

    /// Returns `true` if the connection must close now. Called by its own task.
    pub(crate) fn must_close(&self) -> bool {
        self.0.is_evicted.load(Ordering::Acquire) && self.idle_since().is_some()
    }
}
