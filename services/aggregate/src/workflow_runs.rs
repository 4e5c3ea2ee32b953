//! Store, clock and randomness of the runs of composite tools.

mod suspended_runs;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use vmcp_compose::{Jitter, RunEvent, RunOwner, StepStatus, WorkflowStore};
use vmcp_core::{Clock, Identity, network};

pub(crate) use self::suspended_runs::SuspendedRuns;
use crate::seal::principal;
use crate::status::WorkflowCounts;

/// Parts that the runs of composite tools share.
#[derive(Clone, Debug)]
pub(crate) struct WorkflowContext {
    pub(crate) store: Arc<dyn WorkflowStore>,
    pub(crate) clock: Clock,
    pub(crate) jitter: Jitter,
    pub(crate) counters: Arc<RunCounters>,
    pub(crate) suspended: Arc<SuspendedRuns>,
}

/// Time limit for giving the leases of runs back at shutdown.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

impl WorkflowContext {
    /// Waits until other replicas can continue the runs of this one.
    pub(crate) async fn released(&self) {
        if timeout(RELEASE_TIMEOUT, self.store.released()).await.is_err() {
            tracing::debug!("runs are still leased after {RELEASE_TIMEOUT:?}");
        }
    }
}

/// Returns the key of the owner of a caller's runs. Anonymous callers have one for each address, or for each /64 network of
/// IPv6, so that none of them takes the places of the others.
pub(crate) fn run_owner(identity: &Identity, address: Option<IpAddr>) -> RunOwner {
    if identity.is_anonymous() {
        return RunOwner::new(address.map_or_else(String::new, |it| network(it).to_string()));
    }
    let (issuer, subject) = principal(identity);
    RunOwner::new(format!("{issuer}\n{subject}"))
}

/// Counters of runs, and of ended runs and steps since the start of the process. Relaxed: they guard no other memory.
#[derive(Debug, Default)]
pub(crate) struct RunCounters {
    running: AtomicUsize,
    waiting: AtomicUsize,
    completed: AtomicU64,
    failed: AtomicU64,
    steps_completed: AtomicU64,
    steps_failed: AtomicU64,
    steps_skipped: AtomicU64,
    milliseconds: AtomicU64,
}

impl RunCounters {
    /// Counts a run that begins to wait for the user in place, or no longer does.
    pub(crate) fn count_wait(&self, waits: bool) {
        if waits {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        } else {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts the event, if it starts or ends a run or ends a step.
    pub(crate) fn count(&self, event: &RunEvent<'_>) {
        match event {
            RunEvent::RunStarted { .. } | RunEvent::RunResumed { .. } => {
                self.running.fetch_add(1, Ordering::Relaxed);
            }
            RunEvent::RunSuspended { .. }
            | RunEvent::RunInterrupted { .. }
            | RunEvent::RunFinished { .. } => {
                self.running.fetch_sub(1, Ordering::Relaxed);
            }
            _ => {}
        }
        let counter = match event {
            RunEvent::RunFinished { error, duration } => {
                let elapsed = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
                self.milliseconds.fetch_add(elapsed, Ordering::Relaxed);
                if error.is_some() { &self.failed } else { &self.completed }
            }
            RunEvent::StepFinished { status, .. } => match status {
                StepStatus::Completed => &self.steps_completed,
                StepStatus::Failed | StepStatus::Cancelled => &self.steps_failed,
                StepStatus::Skipped => &self.steps_skipped,
            },
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the current numbers.
    pub(crate) fn counts(&self) -> WorkflowCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WorkflowCounts {
            running: self.running.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            completed: of(&self.completed),
            failed: of(&self.failed),
            steps_completed: of(&self.steps_completed),
            steps_failed: of(&self.steps_failed),
            steps_skipped: of(&self.steps_skipped),
            milliseconds: of(&self.milliseconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_callers_own_runs_by_address() {
        let of = |address: &str| run_owner(&Identity::anonymous(), address.parse().ok());
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    }
}
