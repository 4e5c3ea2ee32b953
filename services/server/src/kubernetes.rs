//! Cluster of a replica of a VirtualMCPServer. Without the feature `kubernetes`, `kubernetes/unavailable.rs` takes its place.

mod reports;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use kube::{Client, Config};
use tokio::sync::watch;
use vmcp_aggregate::status::BackendReport as ServedBackend;
use vmcp_api::conversion::{LeftOut, LeftOutReason as MemberReason, MemberKind};
use vmcp_discover::{Discovered, DiscoveryState, Target};
use vmcp_status_reporter::{self as status_reporter, Environment, Progress, StatusReporter};

use crate::parts::{DiscoveredBackends, LeftOutBackend, LeftOutReason, ServerInfo};
use crate::reloads::DiscoveryStatus;
use crate::virtual_server::{ClusterError, ReportProgress, VirtualServer};

/// Access to the cluster.
pub(crate) struct Cluster {
    client: Client,
    target: Target,
    /// Name of this replica.
    replica: String,
    /// Set once, when the server begins to report.
    reports: OnceLock<Progress>,
}

/// Reporter that runs until it is stopped.
#[derive(Debug)]
pub(crate) struct Reporter(StatusReporter);

/// Server whose backends are reported.
pub(crate) trait ReportedServer: Send + Sync + 'static {
    /// Returns the backends that are served, with their health.
    fn backends(&self) -> Vec<ServedBackend>;

    /// Returns the description of the running configuration.
    fn info(&self) -> Arc<ServerInfo>;

    /// Returns `true` if the backends are known, and each of them has responded, failed or timed out once.
    fn knows_backends(&self) -> bool;
}

/// Discovery of backends that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Discovery {
    _task: vmcp_discover::Discovery,
    state: watch::Receiver<DiscoveryState>,
    /// Last result that was taken.
    taken: Option<Arc<Discovered>>,
}

impl Cluster {
    /// Finds the API server: by the kubeconfig, or else by the service account of the pod. Sends no request.
    pub(crate) async fn connect(
        server: &VirtualServer,
        secrets: Option<&Path>,
    ) -> Result<Self, ClusterError> {
        let no_api_server = |error: String| ClusterError::NoApiServer(error);
        let mut config = Config::infer().await.map_err(|error| no_api_server(error.to_string()))?;
        // Watches and reports repeat failed requests themselves, with the reason in the log.
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|error| no_api_server(error.to_string()))?;
        let target = Target {
            namespace: server.namespace().to_owned(),
            name: server.name().to_owned(),
            secrets: secrets.map(Path::to_owned),
        };
        let replica = server.replica().to_owned();
        Ok(Self { client, target, replica, reports: OnceLock::new() })
    }

    /// Starts to discover backends.
    pub(crate) fn discover(&self) -> Discovery {
        let task = vmcp_discover::Discovery::start(&self.client, self.target.clone());
        let state = task.subscribe();
        Discovery { _task: task, state, taken: None }
    }

    /// Starts to report the health of the backends. Returns `None`, with an error in the log, without random numbers.
    pub(crate) fn report<S: ReportedServer>(&self, server: &Arc<S>) -> Option<Reporter> {
        let environment = Environment::system()
            .inspect_err(|error| tracing::error!(%error, "the status is not reported"))
            .ok()?;
        let Target { namespace, name, secrets: _ } = self.target.clone();
        let target = status_reporter::Target { namespace, name, identity: self.replica.clone() };
        let source = reports::Source::new(server);
        let reporter = StatusReporter::start(self.client.clone(), target, environment, source);
        // A server runs once.
        _ = self.reports.set(reporter.progress());
        Some(Reporter(reporter))
    }

    /// Returns the progress of the reports, if the server reports.
    pub(crate) fn report_progress(&self) -> Option<ReportProgress> {
        let progress = self.reports.get()?;
        let status_reporter::Counts { is_leader, writes, failures } = progress.counts();
        Some(ReportProgress {
            is_leader,
            written: writes,
            failed: failures,
            last_success: progress.last_success(),
            problem: progress.problem(),
        })
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Reporter {
    /// Ends the reports, so that another replica goes on with them. Takes 2 s at most.
    pub(crate) async fn stop(self) {
        self.0.stop().await;
    }
}

impl Discovery {
    /// Waits for another result, or for another status.
    pub(crate) async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            // The task ends only by a panic, which it reports itself. The last backends remain.
            std::future::pending::<()>().await;
        }
    }

    /// Returns the backends if they are others than at the last call, and the status.
    pub(crate) fn take(&mut self) -> (Option<DiscoveredBackends>, DiscoveryStatus) {
        let DiscoveryState { discovered, problem } = self.state.borrow_and_update().clone();
        let is_new = match (&discovered, &self.taken) {
            (Some(new), Some(taken)) => !Arc::ptr_eq(new, taken),
            (new, _) => new.is_some(),
        };
        let status = DiscoveryStatus {
            is_synchronized: discovered.is_some(),
            problem: problem.map(|problem| problem.to_string()),
        };
        let backends = discovered.as_deref().filter(|_| is_new).cloned().map(Into::into);
        self.taken = discovered;
        (backends, status)
    }
}

impl From<Discovered> for DiscoveredBackends {
    fn from(discovered: Discovered) -> Self {
        let Discovered { backends, variables, outgoing_auth, tools, left_out, surplus } =
            discovered;
        let vmcp_config::OutgoingAuth {
            // Resolved for each backend.
            source: _,
            default: _,
            backends: strategies,
        } = outgoing_auth;
        let left_out = left_out.into_iter().map(LeftOutBackend::from);
        let left_out = left_out.chain(surplus.into_iter().map(surplus_member)).collect();
        Self { backends, variables, strategies, tools, left_out }
    }
}

impl From<LeftOut> for LeftOutBackend {
    fn from(left_out: LeftOut) -> Self {
        let LeftOut { backend, kind, reason, message } = left_out;
        let reason = match reason {
            MemberReason::DuplicateName => LeftOutReason::DuplicateName,
            MemberReason::Deleting => LeftOutReason::Deleting,
            MemberReason::UrlUnknown => LeftOutReason::UrlUnknown,
            MemberReason::EntryPending => LeftOutReason::EntryPending,
            MemberReason::EntryInvalid => LeftOutReason::EntryInvalid,
            MemberReason::BackendInvalid => LeftOutReason::BackendInvalid,
            MemberReason::AuthConfigNotFound => LeftOutReason::AuthConfigNotFound,
            MemberReason::AuthConfigInvalid => LeftOutReason::AuthConfigInvalid,
            MemberReason::AuthConfigUnsupported => LeftOutReason::AuthConfigUnsupported,
            MemberReason::SecretPending => LeftOutReason::SecretPending,
        };
        Self { backend, reason, message: format!("{}: {message}", kind.as_str()) }
    }
}

fn surplus_member((backend, kind): (String, MemberKind)) -> LeftOutBackend {
    let message = format!(
        "{}: the group has more members than a server may have; move some to another group",
        kind.as_str()
    );
    LeftOutBackend { backend, reason: LeftOutReason::TooManyMembers, message }
}
