//! Progress of a reporter, for metrics and status pages.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::SystemTime,
};

use jiff::Timestamp;
use tokio::sync::watch;

/// Progress of a reporter.
#[derive(Clone, Debug)]
pub struct Progress(pub(crate) State);

/// Numbers of a reporter.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// `true` if this replica holds the Lease.
    pub is_leader: bool,
    /// Writes of the status.
    pub writes: u64,
    /// Reports that failed.
    pub failures: u64,
}

/// State that the task of a reporter writes, and that others read.
#[derive(Clone, Debug)]
pub(crate) struct State(Arc<Shared>);

/// Numbers and texts are independent of each other, so that no order of the atomics matters.
#[derive(Debug)]
struct Shared {
    is_leader: AtomicBool,
    writes: AtomicU64,
    failures: AtomicU64,
    last: Mutex<Last>,
    lease_problem: watch::Receiver<Option<String>>,
}

/// Outcome of the last report.
#[derive(Debug, Default)]
struct Last {
    success: Option<SystemTime>,
    problem: Option<String>,
}

// === impl Progress ===

impl Progress {
    /// Returns the numbers so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let Shared { is_leader, writes, failures, last: _, lease_problem: _ } = &*self.0.0;
        Counts {
            is_leader: is_leader.load(Ordering::Relaxed),
            writes: writes.load(Ordering::Relaxed),
            failures: failures.load(Ordering::Relaxed),
        }
    }

    /// Returns the time at which this replica last found or made the status current.
    #[must_use]
    pub fn last_success(&self) -> Option<SystemTime> {
        self.0.last().success
    }

    /// Returns the reason why this replica cannot report, or cannot hold the Lease. `None` while another replica reports.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let problem = self.0.last().problem.clone();
        problem.or_else(|| self.0.0.lease_problem.borrow().clone())
    }
}

// === impl State ===

impl State {
    pub(crate) fn new(lease_problem: watch::Receiver<Option<String>>) -> Self {
        Self(Arc::new(Shared {
            is_leader: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last: Mutex::default(),
            lease_problem,
        }))
    }

    pub(crate) fn begin_leading(&self) {
        self.0.is_leader.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the replica led.
    pub(crate) fn end_leading(&self) -> bool {
        // Reports are now those of another replica.
        self.last().problem = None;
        self.0.is_leader.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn count_write(&self) {
        self.0.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that the status is current.
    pub(crate) fn succeed(&self, now: Timestamp) {
        *self.last() = Last { success: Some(now.into()), problem: None };
    }

    /// Records a report that failed.
    pub(crate) fn fail(&self, problem: String) {
        self.0.failures.fetch_add(1, Ordering::Relaxed);
        self.set_problem(problem);
    }

    pub(crate) fn set_problem(&self, problem: String) {
        self.last().problem = Some(problem);
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        // No code panics while it holds the lock.
        self.0.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
