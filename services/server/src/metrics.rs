//! Metrics of the server: those that it feeds from its own counters, and [`all`] that it exports.
//!
//! The dashboard `dashboards/grafana.json` shows each of them; `dashboards/alerts.yaml` has alert rules. Both are tested
//! against these names and labels.
//!
//! ```
//! let names: Vec<_> = vmcp_server::metrics::all().map(|metric| metric.prometheus()).collect();
//! assert!(names.contains(&"vmcp_sessions".to_owned()));
//! assert!(names.contains(&"vmcp_mcp_requests_total".to_owned()));
//! ```

use vmcp_telemetry::metrics::names::{self, Metric};

/// Label with the kind of entries that the authorization server stores or caches.
pub const AUTH_KIND: &str = "vmcp.auth_server.kind";

/// Label with the storage of the authorization server: `memory` or `redis`.
pub const AUTH_STORAGE: &str = "vmcp.auth_server.storage";

/// Label with the kind of entries in memory.
pub const CACHE_NAME: &str = "vmcp.cache.name";

/// Label with the mode of a search for tools: `hybrid`, `semantic`, `keyword`, or `fallback` for keywords in place of
/// embeddings.
pub const SEARCH_MODE: &str = "vmcp.search.mode";

/// Label with the status of the runs of composite tools that have not ended: `running` or `input_required`.
pub const WORKFLOW_STATUS: &str = "vmcp.workflow.status";

/// Label with the part of the storage that replicas share: `sessions`, `workflows`, or `messages` of other replicas.
pub const SESSION_STORAGE_PART: &str = "vmcp.session_storage.part";

/// Label with the direction of connections with other replicas: `outgoing` or `incoming`.
pub const PEER_DIRECTION: &str = "vmcp.peer.direction";

/// Label with what a forwarded request names: `response`, `resumption`, `cancellation`, `suspended_call`, `workflow_run` or `task`.
pub const PEER_REQUEST_KIND: &str = "vmcp.peer.kind";

/// Label with the outcome of a forwarded request: `responded`, `gone` or `failed`.
pub const PEER_REQUEST_OUTCOME: &str = "vmcp.peer.outcome";

/// Label with the outcome of a report about the backends in Kubernetes: `written` or `failed`.
pub const REPORT_OUTCOME: &str = "vmcp.status_report.outcome";

vmcp_telemetry::declare_metrics! {
    /// Entries in the authorization server's store, the same on replicas that share it.
    AUTH_STORED = Gauge "vmcp_auth_server_stored" "";
    /// Entries in the memory of the authorization server.
    AUTH_HELD = Gauge "vmcp_auth_server_held" "";
    /// Availability of the authorization server's store: 1 or 0.
    AUTH_STORE_UP = Gauge "vmcp_auth_server_store_up" "";
    /// Open sessions.
    SESSIONS = Gauge "vmcp_sessions" "";
    /// Calls that wait for a response of their client.
    PARKED_CALLS = Gauge "vmcp_parked_calls" "";
    /// Calls that continue while their client is disconnected.
    DETACHED_CALLS = Gauge "vmcp_detached_calls" "";
    /// Calls that ended because their client was away for too long, or too much was buffered for it.
    DETACHED_CALLS_ENDED = Counter "vmcp_detached_calls_ended" "";
    /// Messages to clients that were dropped because the queue was full.
    DROPPED_MESSAGES = Counter "vmcp_dropped_messages" "";
    /// Entries, or bytes of them, that are kept in memory for a while, by kind.
    CACHE_ENTRIES = Gauge "vmcp_cache_entries" "";
    /// Open client connections.
    CONNECTIONS = Gauge "vmcp_connections" "";
    /// Idle client connections that were closed to make room for others.
    CONNECTIONS_EVICTED = Counter "vmcp_connections_evicted" "";
    /// Buffered bytes of messages, small ones excluded.
    BUFFERED_BYTES = Gauge "vmcp_buffered_bytes" "";
    /// Maximum number of buffered bytes of messages.
    BUFFERED_BYTES_LIMIT = Gauge "vmcp_buffered_bytes_limit" "";
    /// Messages that wait for buffer capacity.
    BUFFERED_BYTES_WAITING = Gauge "vmcp_buffered_bytes_waiting" "";
    /// Messages that were rejected for lack of buffer capacity.
    BUFFERED_BYTES_REFUSED = Counter "vmcp_buffered_bytes_refused" "";
    /// Open connections to all backends.
    POOL_CONNECTIONS = Gauge "vmcp_backend_connections" "";
    /// State of each backend's circuit: 0 closed, 1 half-open, 2 open.
    CIRCUIT_STATE = Gauge "vmcp_backend_circuit_state" "";
    /// Changes of each backend's health.
    HEALTH_CHANGES = Counter "vmcp_backend_health_changes" "";
    /// Health of each backend: 1 if healthy, 0 if not.
    BACKEND_HEALTHY = Gauge "vmcp_backend_healthy" "";
    /// Searches for tools, by mode.
    TOOL_SEARCHES = Counter "vmcp_tool_searches" "";
    /// Tokens of all tools that the callers of searches see, summed over the searches.
    SEARCH_BASELINE_TOKENS = Counter "vmcp_tool_search_baseline_tokens" "";
    /// Tokens of the tools that searches returned.
    SEARCH_RETURNED_TOKENS = Counter "vmcp_tool_search_returned_tokens" "";
    /// Availability of the embedding service: 1 or 0.
    EMBEDDING_SERVICE_UP = Gauge "vmcp_embedding_service_up" "";
    /// Runs of composite tools that have not ended, by status.
    WORKFLOW_RUNS_ACTIVE = Gauge "vmcp_workflow_runs_active" "";
    /// Audit events that were dropped because the queue was full.
    AUDIT_DROPPED = Counter "vmcp_audit_dropped_events" "";
    /// Availability of the storage that replicas share, by part: 1 or 0.
    SESSION_STORAGE_UP = Gauge "vmcp_session_storage_up" "";
    /// Connections with other replicas, by direction.
    PEER_CONNECTIONS = Gauge "vmcp_peer_connections" "";
    /// Requests that were forwarded to other replicas, by kind and outcome.
    PEER_REQUESTS = Counter "vmcp_peer_requests" "";
    /// 1 if this replica reports the status of its VirtualMCPServer, 0 if another one does, or none can.
    REPORT_LEADER = Gauge "vmcp_status_report_leader" "";
    /// Reports about the backends in the status of the VirtualMCPServer, by outcome. Those that changed nothing do not count.
    REPORTS = Counter "vmcp_status_reports" "";
    /// Unix time at which this replica last found or made the status of its VirtualMCPServer current.
    REPORT_LAST_SUCCESS = Gauge "vmcp_status_report_last_success_timestamp_seconds" "";
}

/// Returns all metrics that the server exports: its own, those of its layers, and those of the export itself.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    names::METRICS.iter().chain(vmcp_telemetry_export::METRICS).chain(METRICS)
}

#[cfg(test)]
mod tests;
