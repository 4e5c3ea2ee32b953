//! State of the server: one part that a reload replaces, one that it keeps.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use http::StatusCode;
use serde_json::json;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::status::CacheSizes;
use vmcp_audit::AuditLayer;
use vmcp_audit_log::LogHandle;
use vmcp_core::ByteBudget;
use vmcp_decode::DecodeLayer;
use vmcp_http_guard::{AllowedHostsLayer, ConcurrencyLimitLayer};
use vmcp_legacy_sse::ClientTable;
use vmcp_listener::Connections;
use vmcp_peer::PeerClient;
use vmcp_telemetry_export::Telemetry;

use super::{RequestBody, json_response};
use crate::auth_audit::{AuthAuditRecorder, RequestInfoLayer};
use crate::auth_server::AuthServerRuntime;
use crate::exposure::Exposure;
use crate::kubernetes::Cluster;
use crate::memory_gauges::MemoryGauges;
use crate::parts::{AuditOptions, AuditPipeline, IncomingAuth, ServerInfo, TelemetryParts};
use crate::readiness::Readiness;
use crate::reloads::Reloads;
use crate::request_log::RequestLogLayer;
use crate::session_storage::SharedStorage;
use crate::stack::{self, McpService};
use crate::stream_scope::StreamScope;
use crate::virtual_server::ReportProgress;
use vmcp_core::lock;

/// State that all connections share.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) state: StaticState,
    /// Only a reload replaces it. A request loads it once and completes on what it loaded.
    pub(crate) reloadable: arc_swap::ArcSwap<ReloadableState>,
    /// Replaced after `reloadable`: `/status` may briefly lack the description of a new backend.
    pub(crate) info: arc_swap::ArcSwap<ServerInfo>,
    pub(crate) reloads: Reloads,
    /// Set once, when the server begins to stop.
    pub(crate) draining: AtomicBool,
    /// Set once, when each backend of the first configuration has responded, failed or timed out.
    pub(crate) readiness: Readiness,
    pub(crate) connections: Connections,
    /// Gauges of the caches of all configurations that are still in use.
    pub(crate) gauges: Mutex<MemoryGauges>,
    /// Audit logs of earlier configurations, to which requests under way still write.
    pub(crate) retired_logs: Mutex<Vec<LogHandle>>,
}

/// State that a reload does not change.
#[derive(Debug)]
pub(crate) struct StaticState {
    pub(crate) telemetry: Option<TelemetryParts>,
    /// `true` if clients of the server can read the metrics.
    pub(crate) shows_metrics: bool,
    pub(crate) concurrency_limit: ConcurrencyLimitLayer,
    /// Log of failed requests, with one rate limit for all stacks.
    pub(crate) log: RequestLogLayer,
    /// Allowed hosts that the configuration cannot change.
    pub(crate) allowed_hosts: AllowedHostsLayer,
    pub(crate) exposure: Exposure,
    pub(crate) decode: DecodeLayer,
    /// Budget of buffered message bytes.
    pub(crate) budget: ByteBudget,
    pub(crate) legacy_sse: Arc<ClientTable>,
    pub(crate) gateway: Gateway,
    /// Storage that replicas share, if one is configured.
    pub(crate) session_storage: Option<SharedStorage>,
    /// Client for requests to other replicas.
    pub(crate) peers: Option<PeerClient>,
    /// Recorder of the authorization server's audit events.
    pub(crate) auth_audit: Arc<AuthAuditRecorder>,
    pub(crate) audit_options: AuditOptions,
    /// Cluster of a replica of a VirtualMCPServer.
    pub(crate) cluster: Option<Arc<Cluster>>,
}

/// Services that handle requests, replaced on reload. A request completes on the stack that it began on.
#[derive(Debug)]
pub(crate) struct ReloadableState {
    pub(super) mcp: McpService<RequestBody>,
    pub(super) legacy_sse: McpService<RequestBody>,
    /// Runs of composite tools.
    pub(super) workflow_runs: McpService<RequestBody>,
    /// Allowed hosts.
    pub(super) allowed_hosts: AllowedHostsLayer,
    pub(crate) incoming_auth: IncomingAuth,
    pub(crate) audit_pipeline: Option<AuditPipeline>,
    /// Ends the streams of this configuration when a reload does not keep them.
    pub(crate) streams: StreamScope,
    /// The authorization server and its stack.
    pub(super) issuer: Option<(AuthServerRuntime, McpService<RequestBody>)>,
}

impl ReloadableState {
    /// Returns the authorization server, if there is one.
    pub(crate) fn issuer(&self) -> Option<&AuthServerRuntime> {
        self.issuer.as_ref().map(|(issuer, _)| issuer)
    }
}

#[cfg(feature = "kubernetes")]
impl crate::kubernetes::ReportedServer for ServerState {
    fn backends(&self) -> Vec<vmcp_aggregate::status::BackendReport> {
        self.state.gateway.backends()
    }

    fn info(&self) -> Arc<ServerInfo> {
        self.info.load_full()
    }

    fn knows_backends(&self) -> bool {
        self.readiness.knows_backends()
    }
}

impl StaticState {
    /// Returns the progress of the reports about backends in Kubernetes, if the server reports.
    pub(crate) fn report_progress(&self) -> Option<ReportProgress> {
        self.cluster.as_ref()?.report_progress()
    }

    /// Returns the exporters of metrics and traces, if there are any.
    pub(crate) fn telemetry(&self) -> Option<&Telemetry> {
        self.telemetry.as_ref().map(|parts| &parts.telemetry)
    }

    pub(crate) fn reloadable(
        &self,
        incoming_auth: IncomingAuth,
        audit_pipeline: Option<AuditPipeline>,
        issuer: Option<AuthServerRuntime>,
        streams: StreamScope,
    ) -> ReloadableState {
        self.auth_audit
            .set_auditor(audit_pipeline.as_ref().map(|audit_pipeline| &audit_pipeline.auditor));
        if incoming_auth.authorize.is_some()
            && self.shows_metrics
            && let Some(telemetry) = self.telemetry()
        {
            // Policies may hide a tool from those who can read the metrics.
            telemetry.hide_names();
        }
        let allowed_hosts = self
            .allowed_hosts
            .clone()
            .with_configured_hosts(incoming_auth.configured_hosts().to_vec());
        let incoming = stack::IncomingLayers {
            telemetry: self.telemetry().map(Telemetry::incoming),
            log: self.log.clone(),
            concurrency_limit: self.concurrency_limit.clone(),
            allowed_hosts: allowed_hosts.clone(),
            audit: audit_pipeline
                .as_ref()
                .map(|audit_pipeline| AuditLayer::new(audit_pipeline.auditor.clone())),
            authenticate: incoming_auth.authenticate.clone(),
            decode: self.decode.clone(),
            authorize: incoming_auth.authorize.clone(),
        };
        let legacy_sse =
            incoming.clone().legacy_sse(Arc::clone(&self.legacy_sse), self.gateway.clone());
        let workflow_runs = incoming.clone().workflow_runs(self.gateway.clone());
        let issuer = issuer.map(|issuer| {
            let pages = issuer.router().fallback(async || {
                json_response(StatusCode::NOT_FOUND, &json!({"error": "not_found"}))
                    .map(axum::body::Body::new)
            });
            let layers = stack::AuthServerLayers {
                telemetry: self.telemetry().map(Telemetry::endpoints),
                log: self.log.clone(),
                concurrency_limit: self.concurrency_limit.clone(),
                allowed_hosts: allowed_hosts.clone(),
                request_info: RequestInfoLayer(Arc::clone(&self.auth_audit)),
            };
            (issuer, layers.stack(pages))
        });
        let mcp = incoming.stack(self.gateway.clone());
        ReloadableState {
            mcp,
            legacy_sse,
            workflow_runs,
            allowed_hosts,
            incoming_auth,
            audit_pipeline,
            streams,
            issuer,
        }
    }
}

impl ServerState {
    pub(crate) fn new(
        state: StaticState,
        reloadable: ReloadableState,
        info: ServerInfo,
        connections: Connections,
        gauges: MemoryGauges,
    ) -> Self {
        let readiness = Readiness::new(state.gateway.clone(), info.is_discovered);
        Self {
            state,
            reloadable: Arc::new(reloadable).into(),
            info: arc_swap::ArcSwap::from_pointee(info),
            reloads: Reloads::default(),
            draining: AtomicBool::new(false),
            readiness,
            connections,
            gauges: Mutex::new(gauges),
            retired_logs: Mutex::default(),
        }
    }

    /// Keeps an audit log open for the requests under way that still write to it.
    pub(crate) fn retire(&self, log: LogHandle) {
        let mut retired = lock(&self.retired_logs);
        retired.retain(|log| !log.is_finished());
        retired.push(log);
    }

    /// Returns the audit logs of earlier configurations that are still in use.
    pub(crate) fn retired_logs(&self) -> Vec<LogHandle> {
        lock(&self.retired_logs).clone()
    }

    /// Adds gauges.
    pub(crate) fn add_gauges(&self, more: MemoryGauges) {
        lock(&self.gauges).merge(more);
    }

    /// Returns the number of entries in caches and tables, by kind.
    pub(crate) fn cache_entries(&self) -> BTreeMap<&'static str, usize> {
        let mut gauges = lock(&self.gauges).counts();
        let CacheSizes {
            list_views,
            caller_offers,
            distinct_offers,
            caller_catalogs,
            stateless_sessions,
            ended_sessions,
            listeners,
            detached_bytes,
        } = self.state.gateway.cache_sizes();
        gauges.extend([
            ("list_views", list_views),
            ("caller_offers", caller_offers),
            ("different_offers", distinct_offers),
            ("caller_catalogs", caller_catalogs),
            ("shared_sessions", stateless_sessions),
            ("ended_sessions", ended_sessions),
            ("subscription_streams", listeners),
            ("detached_bytes", detached_bytes),
            ("old_client_streams", self.state.legacy_sse.len()),
            ("message_bytes", self.state.budget.counts().held),
        ]);
        if let Some(stored) = self.state.gateway.stored_runs() {
            gauges.extend([("workflow_runs", stored.runs), ("workflow_run_bytes", stored.bytes)]);
        }
        if let Some(optimizer) = self.state.gateway.optimizer() {
            gauges.extend([
                ("tool_search_views", optimizer.views),
                ("indexed_tools", optimizer.index.tools),
            ]);
            if let Some(embedder) = optimizer.embedder {
                gauges.extend([
                    ("tool_vectors", embedder.tool_vectors),
                    ("query_vectors", embedder.query_vectors),
                ]);
            }
        }
        if let Some(audit_pipeline) = &self.reloadable.load().audit_pipeline {
            gauges.insert("audit_queue_bytes", audit_pipeline.log.queued_bytes());
        }
        gauges
    }
}
