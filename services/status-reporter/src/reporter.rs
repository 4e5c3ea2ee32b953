//! Task that reports while its replica holds the Lease.

use std::{collections::BTreeMap, time::Duration};

use kube::Client;
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use vmcp_api::{names::status_lease_name, virtual_mcp_server::BackendStatus};
use vmcp_lease::{Candidate, Environment, Timing, message};

use crate::{
    change::{Written, is_changed},
    progress::{Progress, State},
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

/// Shortest interval between two reports: each one reads the resource.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

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
    state: State,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

struct Task<S> {
    resource: Resource,
    source: S,
    environment: Environment,
    state: State,
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
        let lease = status_lease_name(&name);
        let candidate =
            Candidate::new(client.clone(), &namespace, &lease, identity, environment.clone())
                .timing(TIMING)
                .without_creation();
        let state = State::new(candidate.problem());
        let resource = Resource::new(client, &namespace, &name);
        let task = Task { resource, source, environment, state: state.clone() };
        let (stop, stopped) = oneshot::channel();
        Self { state, stop, task: tokio::spawn(task.run(candidate, stopped)) }
    }

    /// Returns the progress, which can be read even after the end of the reporter.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress(self.state.clone())
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
        if self.state.end_leading() {
            candidate.release().await;
        }
    }

    /// Reports whenever this replica holds the Lease. Never ends.
    async fn work(&mut self, candidate: &mut Candidate) {
        loop {
            candidate.acquire().await;
            self.state.begin_leading();
            let lost = tokio::select! {
                lost = candidate.renew() => lost,
                never = self.lead() => match never {},
            };
            self.state.end_leading();
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
            let checked = checked(&report);
            match timeout(REPORT_TIMEOUT, self.report(report, &mut term)).await {
                Ok(Ok(())) => {
                    if std::mem::take(&mut term.failures) > 0 {
                        tracing::info!("status reported again");
                    }
                    self.wait(&checked).await;
                }
                Ok(Err(error)) => self.wait_after(&ReportError::Request(error), &mut term).await,
                Err(_) => self.wait_after(&ReportError::Timeout, &mut term).await,
            }
        }
    }

    /// Writes the status unless it is so already.
    async fn report(&mut self, report: Report, term: &mut Term) -> kube::Result<()> {
        let Some(present) = self.resource.read().await? else {
            let problem = format!("{} does not exist", self.resource);
            tracing::debug!(problem, "status not reported");
            self.state.set_problem(problem);
            return Ok(());
        };
        let now = self.environment.now();
        let desired = PodStatus::new(report, &present.status, present.generation, now);
        let with_checks = term.written_at.elapsed() >= CHECKS_INTERVAL;
        if !is_changed(&present.status, &desired, term.written.as_ref(), with_checks) {
            self.state.succeed(now);
            return Ok(());
        }
        let result = self.resource.apply(present.uid.as_deref(), &desired).await?;
        self.state.count_write();
        self.state.succeed(now);
        term.written = Some(Written { applied: desired, result });
        term.written_at = Instant::now();
        Ok(())
    }

    /// Waits for the next report: for the interval, or until a backend is added, removed, or checked for the first time.
    async fn wait(&mut self, checked: &Checked) {
        let start = Instant::now();
        loop {
            let interval = self.source.interval().max(MIN_INTERVAL);
            let left = interval.saturating_sub(start.elapsed());
            if left.is_zero() {
                return;
            }
            sleep(left.min(LOOK_INTERVAL)).await;
            if self.source.report().is_some_and(|report| has_news(checked, &self::checked(&report)))
            {
                return;
            }
        }
    }

    async fn wait_after(&mut self, error: &ReportError, term: &mut Term) {
        term.failures = term.failures.saturating_add(1);
        let problem = error.message();
        if term.failures == 1 {
            tracing::warn!(problem, "failed to report the status");
        }
        self.state.fail(problem);
        // A write may have arrived although its response did not.
        term.written = None;
        sleep(self.environment.backoff(FIRST_BACKOFF, MAX_BACKOFF, term.failures)).await;
    }
}

// === impl ReportError ===

impl ReportError {
    /// Returns the error, and its remedy if there is one.
    fn message(&self) -> String {
        match self {
            Self::Request(error @ kube::Error::Api(status)) if status.code == 403 => format!(
                "{}: give the account of the pod the role that vmcp-operator plans for it",
                message(error)
            ),
            Self::Request(error) => message(error),
            Self::Timeout => format!("no response within {} s", REPORT_TIMEOUT.as_secs()),
        }
    }
}

/// Names of the backends, and whether each was checked.
type Checked = BTreeMap<String, bool>;

fn checked(report: &Report) -> Checked {
    let is_checked = |status| status != BackendStatus::Unknown;
    report.backends.iter().map(|one| (one.name.clone(), is_checked(one.status))).collect()
}

/// Returns whether backends were added, removed, or checked for the first time.
fn has_news(before: &Checked, now: &Checked) -> bool {
    let is_new = |(name, is_checked): (&String, &bool)| {
        before.get(name).is_none_or(|was_checked| *is_checked && !was_checked)
    };
    before.len() != now.len() || now.iter().any(is_new)
}
