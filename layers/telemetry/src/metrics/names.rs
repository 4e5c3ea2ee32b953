//! All metrics that this crate records or a server feeds, in one list that the dashboard and the alert rules are
//! tested against.

/// Name and description of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name in OpenTelemetry.
    pub name: &'static str,
    /// The kind of instrument.
    pub kind: MetricKind,
    /// The unit (UCUM): `s`, or an annotation such as `{call}`.
    pub unit: &'static str,
    /// The description.
    pub description: &'static str,
}

/// Kind of instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A monotonic sum.
    Counter,
    /// A value that increases and decreases.
    Gauge,
    /// A histogram of durations.
    Histogram,
}

/// Bucket boundaries of all durations in seconds (OpenTelemetry semantic conventions for MCP).
pub const DURATION_BUCKETS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Label with the name of a backend.
pub const BACKEND: &str = "vmcp.backend.name";

/// Label with the kind of entries that the authorization server stores or caches.
pub const AUTH_KIND: &str = "vmcp.auth_server.kind";

/// Label with the storage of the authorization server: `memory` or `redis`.
pub const AUTH_STORAGE: &str = "vmcp.auth_server.storage";

/// Label with the kind of entries in memory.
pub const CACHE_NAME: &str = "vmcp.cache.name";

/// Label with the mode of a search for tools: `hybrid`, `semantic`, `keyword`, or `fallback` for keywords in place of
/// embeddings.
pub const SEARCH_MODE: &str = "vmcp.search.mode";

/// Label with the outcome of a run or step of a composite tool.
pub const WORKFLOW_OUTCOME: &str = "vmcp.workflow.outcome";

/// Label with the status of the runs of composite tools that have not ended: `running` or `input_required`.
pub const WORKFLOW_STATUS: &str = "vmcp.workflow.status";

/// Label value for everything beyond a limit.
pub const OTHER: &str = "_OTHER";

macro_rules! metrics {
    ($($(#[doc = $text:literal])+ $constant:ident = $kind:ident $name:literal $unit:literal;)+) => {
        $(
            $(#[doc = $text])+
            pub const $constant: Metric = Metric {
                name: $name,
                kind: MetricKind::$kind,
                unit: $unit,
                description: describe(concat!($($text),+)),
            };
        )+

        /// All metrics.
        pub const METRICS: &[Metric] = &[$($constant),+];
    };
}

metrics! {
    /// Duration of MCP operations, up to the end of the response.
    SERVER_DURATION = Histogram "mcp.server.operation.duration" "s";
    /// Requests to the MCP endpoint.
    REQUESTS = Counter "vmcp_mcp_requests" "";
    /// Duration of requests to the MCP endpoint.
    REQUEST_DURATION = Histogram "vmcp_mcp_request_duration" "s";
    /// Requests to the MCP endpoint in flight, open streams included.
    ACTIVE = Gauge "vmcp_mcp_active_connections" "";
    /// Tool calls.
    TOOL_CALLS = Counter "vmcp_mcp_tool_calls" "";
    /// Duration of MCP operations at backends.
    CLIENT_DURATION = Histogram "mcp.client.operation.duration" "s";
    /// Requests to backends.
    BACKEND_REQUESTS = Counter "vmcp_backend_requests" "";
    /// Failed requests to backends, without rejections that MCP permits and responses to health checks.
    BACKEND_ERRORS = Counter "vmcp_backend_errors" "";
    /// Duration of requests to backends.
    BACKEND_DURATION = Histogram "vmcp_backend_requests_duration" "s";
    /// Duration of requests to the authorization server's endpoints.
    HTTP_DURATION = Histogram "http.server.request.duration" "s";
    /// Entries in the authorization server's store, the same on replicas that share it. Fed by the server.
    AUTH_STORED = Gauge "vmcp_auth_server_stored" "";
    /// Entries in the memory of the authorization server. Fed by the server.
    AUTH_HELD = Gauge "vmcp_auth_server_held" "";
    /// Availability of the authorization server's store: 1 or 0. Fed by the server.
    AUTH_STORE_UP = Gauge "vmcp_auth_server_store_up" "";
    /// Failed exports to the collector.
    EXPORT_FAILURES = Counter "vmcp_telemetry_export_failures" "";
    /// Open sessions. Fed by the server.
    SESSIONS = Gauge "vmcp_sessions" "";
    /// Calls that wait for a response of their client. Fed by the server.
    PARKED_CALLS = Gauge "vmcp_parked_calls" "";
    /// Calls that continue while their client is disconnected. Fed by the server.
    DETACHED_CALLS = Gauge "vmcp_detached_calls" "";
    /// Calls that ended because their client was away for too long, or too much was buffered for it. Fed by the server.
    DETACHED_CALLS_ENDED = Counter "vmcp_detached_calls_ended" "";
    /// Messages to clients that were dropped because the queue was full. Fed by the server.
    DROPPED_MESSAGES = Counter "vmcp_dropped_messages" "";
    /// Entries, or bytes of them, that are kept in memory for a while, by kind. Fed by the server.
    CACHE_ENTRIES = Gauge "vmcp_cache_entries" "";
    /// Open client connections. Fed by the server.
    CONNECTIONS = Gauge "vmcp_connections" "";
    /// Idle client connections that were closed to make room for others. Fed by the server.
    CONNECTIONS_EVICTED = Counter "vmcp_connections_evicted" "";
    /// Buffered bytes of messages, small ones excluded. Fed by the server.
    BUFFERED_BYTES = Gauge "vmcp_buffered_bytes" "";
    /// Maximum number of buffered bytes of messages. Fed by the server.
    BUFFERED_BYTES_LIMIT = Gauge "vmcp_buffered_bytes_limit" "";
    /// Messages that wait for buffer capacity. Fed by the server.
    BUFFERED_BYTES_WAITING = Gauge "vmcp_buffered_bytes_waiting" "";
    /// Messages that were rejected for lack of buffer capacity. Fed by the server.
    BUFFERED_BYTES_REFUSED = Counter "vmcp_buffered_bytes_refused" "";
    /// Open connections to all backends. Fed by the server.
    POOL_CONNECTIONS = Gauge "vmcp_backend_connections" "";
    /// State of each backend's circuit: 0 closed, 1 half-open, 2 open. Fed by the server.
    CIRCUIT_STATE = Gauge "vmcp_backend_circuit_state" "";
    /// Changes of each backend's health. Fed by the server.
    HEALTH_CHANGES = Counter "vmcp_backend_health_changes" "";
    /// Health of each backend: 1 if healthy, 0 if not. Fed by the server.
    BACKEND_HEALTHY = Gauge "vmcp_backend_healthy" "";
    /// Searches for tools, by mode. Fed by the server.
    TOOL_SEARCHES = Counter "vmcp_tool_searches" "";
    /// Tokens of all tools that the callers of searches see, summed over the searches. Fed by the server.
    SEARCH_BASELINE_TOKENS = Counter "vmcp_tool_search_baseline_tokens" "";
    /// Tokens of the tools that searches returned. Fed by the server.
    SEARCH_RETURNED_TOKENS = Counter "vmcp_tool_search_returned_tokens" "";
    /// Availability of the embedding service: 1 or 0. Fed by the server.
    EMBEDDING_SERVICE_UP = Gauge "vmcp_embedding_service_up" "";
    /// Runs of composite tools that ended, by tool and outcome.
    WORKFLOW_RUNS = Counter "vmcp_workflow_runs" "";
    /// Duration of runs of composite tools, waits for the user included.
    WORKFLOW_DURATION = Histogram "vmcp_workflow_duration" "s";
    /// Steps of composite tools that ended, by outcome.
    WORKFLOW_STEPS = Counter "vmcp_workflow_steps" "";
    /// Duration of steps of composite tools, waits for the user included.
    WORKFLOW_STEP_DURATION = Histogram "vmcp_workflow_step_duration" "s";
    /// Runs of composite tools that have not ended, by status. Fed by the server.
    WORKFLOW_RUNS_ACTIVE = Gauge "vmcp_workflow_runs_active" "";
    /// Audit events that were dropped because the queue was full. Fed by the server.
    AUDIT_DROPPED = Counter "vmcp_audit_dropped_events" "";
}

impl Metric {
    /// Returns the name in Prometheus, without the `_bucket`, `_sum` and `_count` of a histogram.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let unit = if self.unit == "s" { "_seconds" } else { "" };
        let total = if self.kind == MetricKind::Counter { "_total" } else { "" };
        format!("{}{unit}{total}", self.name.replace('.', "_"))
    }
}

/// Removes the space at the start of a doc comment.
const fn describe(text: &'static str) -> &'static str {
    match text.split_at_checked(1) {
        Some((_, text)) => text,
        None => text,
    }
}

#[cfg(test)]
mod tests;
