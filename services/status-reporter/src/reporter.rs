//! Task that reports while its replica holds the Lease.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use kube::Client;
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use vmcp_api::names::status_lease_name;
use vmcp_lease::{Candidate, Environment, Timing};

use crate::{
    change::{Written, is_changed},
    report::{Report, ReportSource},
    resource::Resource,
    status::PodStatus,
};

/// Times of the election. In the worst case, a replica sees the last renewal 5 s late and waits 9 s: it takes over within 15 s.
const TIMING: Timing = Timing {
    duration: Duration::from_secs(9),
    renew_timeout: Duration::from_secs(7),
    interval: Duration::from_secs(4),
};

/// Interval between two looks whether the backends are others.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Shortest time between two writes that only change times of checks and numbers of failures.
const CHECKS_INTERVAL: Duration = Duration::from_mins(5);

/// Time for the requests of one report.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Delay after a report that failed, doubled with each failure up to [`MAX_BACKOFF`].
const FIRST_BACKOFF: Duration = Duration::from_secs(1);

/// Longest delay after a report that failed.
const MAX_BACKOFF: Duration = Duration::from_mins(1);

/// Server whose status is reported, and the replica that reports.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Target {
    /// Namespace of the server.
    pub namespace: String,
    /// Name of the VirtualMCPServer.
    pub name: String,
    /// Name of this replica, different from that of all others.
    pub identity: String,
}

/// Reporter that runs until it is stopped or dropped. When it is dropped, it gives its Lease up in the background.
#[derive(Debug)]
pub struct StatusReporter {
    state: Arc<State>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

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

/// Numbers that the task counts. Each is independent of the others, so that no order matters.
#[derive(Debug, Default)]
struct State {
    is_leader: AtomicBool,
    writes: AtomicU64,
    failures: AtomicU64,
}

struct Task<S> {
    resource: Resource,
    source: S,
    environment: Environment,
    state: Arc<State>,
}

/// Memory of a replica since it holds the Lease.
struct Term {
    written: Option<Written>,
    /// Time of the last write. At its begin that of the takeover: the holder before may just have written.
    written_at: Instant,
    failures: u32,
}

/// Failure of a report.
#[derive(Debug)]
enum ReportError {
    Request(kube::Error),
    Timeout,
}

// === impl StatusReporter ===

impl StatusReporter {
    /// Starts a task of the current tokio runtime that reports what `source` knows.
    #[must_use]
    pub fn start(
        client: Client,
        target: Target,
        environment: Environment,
        source: impl ReportSource,
    ) -> Self {
        let Target { namespace, name, identity } = target;
        let state = Arc::<State>::default();
        let lease = status_lease_name(&name);
        let candidate =
            Candidate::new(client.clone(), &namespace, &lease, identity, environment.clone())
                .timing(TIMING)
                .without_creation();
        let resource = Resource::new(client, &namespace, &name);
        let task = Task { resource, source, environment, state: Arc::clone(&state) };
        let (stop, stopped) = oneshot::channel();
        Self { state, stop, task: tokio::spawn(task.run(candidate, stopped)) }
    }

    /// Returns the numbers so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counter()()
    }

    /// Returns a function that returns the numbers so far, even after the end of the reporter.
    pub fn counter(&self) -> impl Fn() -> Counts + Clone + Send + Sync + 'static {
        let state = Arc::clone(&self.state);
        move || Counts {
            is_leader: state.is_leader.load(Ordering::Relaxed),
            writes: state.writes.load(Ordering::Relaxed),
            failures: state.failures.load(Ordering::Relaxed),
        }
    }

    /// Ends the task at once, as a crash of the process does: the Lease is left to expire.
    pub fn abort(self) {
        self.task.abort();
    }

    /// Ends the task, and gives the Lease up, so that another replica need not wait until it expires. Takes 2 s at most.
    pub async fn stop(self) {
        let Self { state: _, stop, task } = self;
        // Without a receiver, the task has ended already.
        drop(stop);
        drop(task.await);
    }
}

// === impl Task ===

impl<S: ReportSource> Task<S> {
    async fn run(mut self, mut candidate: Candidate, stopped: oneshot::Receiver<()>) {
        tokio::select! {
            _ = stopped => {}
            () = self.work(&mut candidate) => {}
        }
        if self.state.is_leader.swap(false, Ordering::Relaxed) {
            candidate.release().await;
        }
    }

    /// Reports whenever this replica holds the Lease. Never ends.
    async fn work(&mut self, candidate: &mut Candidate) {
        loop {
            candidate.acquire().await;
            self.state.is_leader.store(true, Ordering::Relaxed);
            let lost = tokio::select! {
                lost = candidate.renew() => lost,
                never = self.lead() => match never {},
            };
            self.state.is_leader.store(false, Ordering::Relaxed);
            tracing::warn!(error = %lost, "another replica reports the status");
        }
    }

    async fn lead(&mut self) -> std::convert::Infallible {
        let mut term = Term { written: None, written_at: Instant::now(), failures: 0 };
        loop {
            let Some(report) = self.source.report() else {
                sleep(LOOK_INTERVAL).await;
                continue;
            };
            let names = names(&report);
            match timeout(REPORT_TIMEOUT, self.report(report, &mut term)).await {
                Ok(Ok(())) => {
                    if std::mem::take(&mut term.failures) > 0 {
                        tracing::info!("status reported again");
                    }
                    self.wait(&names).await;
                }
                Ok(Err(error)) => self.wait_after(&ReportError::Request(error), &mut term).await,
                Err(_) => self.wait_after(&ReportError::Timeout, &mut term).await,
            }
        }
    }

    /// Writes the status unless it is so already.
    async fn report(&mut self, report: Report, term: &mut Term) -> kube::Result<()> {
        let Some(present) = self.resource.read().await? else {
            tracing::debug!("status not reported: the VirtualMCPServer does not exist");
            return Ok(());
        };
        let now = self.environment.now();
        let desired = PodStatus::new(report, &present.status, present.generation, now);
        let with_checks = term.written_at.elapsed() >= CHECKS_INTERVAL;
        if !is_changed(&present.status, &desired, term.written.as_ref(), with_checks) {
            return Ok(());
        }
        let result = self.resource.apply(present.uid.as_deref(), &desired).await?;
        self.state.writes.fetch_add(1, Ordering::Relaxed);
        term.written = Some(Written { applied: desired, result });
        term.written_at = Instant::now();
        Ok(())
    }

    /// Waits for the next report: for the interval, or until the backends are others.
    async fn wait(&mut self, names: &[String]) {
        let start = Instant::now();
        loop {
            let left = self.source.interval().saturating_sub(start.elapsed());
            if left.is_zero() {
                return;
            }
            sleep(left.min(LOOK_INTERVAL)).await;
            let is_new = self.source.report().is_some_and(|report| self::names(&report) != names);
            if is_new {
                return;
            }
        }
    }

    async fn wait_after(&mut self, error: &ReportError, term: &mut Term) {
        self.state.failures.fetch_add(1, Ordering::Relaxed);
        term.failures = term.failures.saturating_add(1);
        if term.failures == 1 {
            match error {
                ReportError::Request(error) => {
                    tracing::warn!(%error, "failed to report the status");
                }
                ReportError::Timeout => {
                    let seconds = REPORT_TIMEOUT.as_secs();
                    tracing::warn!("failed to report the status: no response within {seconds} s");
                }
            }
        }
        // A write may have arrived although its response did not.
        term.written = None;
        sleep(self.environment.backoff(FIRST_BACKOFF, MAX_BACKOFF, term.failures)).await;
    }
}

fn names(report: &Report) -> Vec<String> {
    let mut names: Vec<_> = report.backends.iter().map(|backend| backend.name.clone()).collect();
    names.sort();
    names
}
