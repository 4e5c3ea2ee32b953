//! Every metric that is written here or that a server feeds, in one list that dashboards and alert
//! rules are checked against.

/// A metric: its name in OpenTelemetry, and what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name in OpenTelemetry.
    pub name: &'static str,
    /// How it behaves.
    pub kind: MetricKind,
    /// Its unit (UCUM): `s`, or an annotation such as `{call}`.
    pub unit: &'static str,
    /// What it says.
    pub description: &'static str,
}

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Durations in buckets.
    Histogram,
}

/// The bounds of all durations' buckets, in seconds (OpenTelemetry semantic conventions for MCP).
pub const DURATION_BUCKETS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// The label that names a backend, in every metric that tells them apart.
pub const BACKEND: &str = "vmcp.backend.name";

/// The label that says what it is that the authorization server stores or holds.
pub const AUTH_KIND: &str = "vmcp.auth_server.kind";

/// The label that says where the authorization server stores it: `memory` or `redis`.
pub const AUTH_STORAGE: &str = "vmcp.auth_server.storage";

/// The label that says what entries are that are kept in memory.
pub const CACHE_NAME: &str = "vmcp.cache.name";

/// What stands in the place of a name that is one too many.
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

        /// All of them.
        pub const METRICS: &[Metric] = &[$($constant),+];
    };
}

metrics! {
    /// How long MCP operations take, up to the end of their answer.
    SERVER_DURATION = Histogram "mcp.server.operation.duration" "s";
    /// Requests to the MCP endpoint.
    REQUESTS = Counter "vmcp_mcp_requests" "";
    /// How long requests to the MCP endpoint take.
    REQUEST_DURATION = Histogram "vmcp_mcp_request_duration" "s";
    /// Requests to the MCP endpoint that are under way, open streams included.
    ACTIVE = Gauge "vmcp_mcp_active_connections" "";
    /// Tool calls.
    TOOL_CALLS = Counter "vmcp_mcp_tool_calls" "";
    /// How long MCP operations at backends take.
    CLIENT_DURATION = Histogram "mcp.client.operation.duration" "s";
    /// Requests to backends.
    BACKEND_REQUESTS = Counter "vmcp_backend_requests" "";
    /// Requests to backends that failed. What a backend answers to a check, or refuses as MCP lets it, is no failure.
    BACKEND_ERRORS = Counter "vmcp_backend_errors" "";
    /// How long requests to backends take.
    BACKEND_DURATION = Histogram "vmcp_backend_requests_duration" "s";
    /// How long requests to the authorization server's endpoints take.
    HTTP_DURATION = Histogram "http.server.request.duration" "s";
    /// What the authorization server's store holds: the same on replicas that share it. Fed by the server.
    AUTH_STORED = Gauge "vmcp_auth_server_stored" "";
    /// What the authorization server holds in its process. Fed by the server.
    AUTH_HELD = Gauge "vmcp_auth_server_held" "";
    /// Whether the authorization server's store answers: 1, or 0. Fed by the server.
    AUTH_STORE_UP = Gauge "vmcp_auth_server_store_up" "";
    /// Exports to the collector that failed.
    EXPORT_FAILURES = Counter "vmcp_telemetry_export_failures" "";
    /// Sessions that are open. Fed by the server.
    SESSIONS = Gauge "vmcp_sessions" "";
    /// Calls that wait for an answer of their client. Fed by the server.
    PARKED_CALLS = Gauge "vmcp_parked_calls" "";
    /// Calls that go on while their client is not connected. Fed by the server.
    DETACHED_CALLS = Gauge "vmcp_detached_calls" "";
    /// Calls that were ended because their client was away for too long, or too much waited for it. Fed by the server.
    DETACHED_CALLS_ENDED = Counter "vmcp_detached_calls_ended" "";
    /// Messages to clients that found no room. Fed by the server.
    DROPPED_MESSAGES = Counter "vmcp_dropped_messages" "";
    /// Entries that are kept in memory for a while, or bytes of them, by what they are. Fed by the server.
    CACHE_ENTRIES = Gauge "vmcp_cache_entries" "";
    /// Connections of clients that are open. Fed by the server.
    CONNECTIONS = Gauge "vmcp_connections" "";
    /// Idle connections of clients that were closed to make room for others. Fed by the server.
    CONNECTIONS_EVICTED = Counter "vmcp_connections_evicted" "";
    /// Bytes of messages that are held, apart from small ones. Fed by the server.
    BUFFERED_BYTES = Gauge "vmcp_buffered_bytes" "";
    /// The most bytes of messages that may be held. Fed by the server.
    BUFFERED_BYTES_LIMIT = Gauge "vmcp_buffered_bytes_limit" "";
    /// Messages that wait for others to be dropped. Fed by the server.
    BUFFERED_BYTES_WAITING = Gauge "vmcp_buffered_bytes_waiting" "";
    /// Messages that were refused because too many bytes are held. Fed by the server.
    BUFFERED_BYTES_REFUSED = Counter "vmcp_buffered_bytes_refused" "";
    /// Connections to backends that are open, to all together. Fed by the server.
    POOL_CONNECTIONS = Gauge "vmcp_backend_connections" "";
    /// State of each backend's circuit: 0 closed, 1 half open, 2 open. Fed by the server.
    CIRCUIT_STATE = Gauge "vmcp_backend_circuit_state" "";
    /// Changes of each backend's health. Fed by the server.
    HEALTH_CHANGES = Counter "vmcp_backend_health_changes" "";
    /// Whether each backend is healthy: 1, or 0. Fed by the server.
    BACKEND_HEALTHY = Gauge "vmcp_backend_healthy" "";
    /// Audit events that found no room. Fed by the server.
    AUDIT_DROPPED = Counter "vmcp_audit_dropped_events" "";
}

impl Metric {
    /// Its name in Prometheus, without the `_bucket`, `_sum` and `_count` of a histogram.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let unit = if self.unit == "s" { "_seconds" } else { "" };
        let total = if self.kind == MetricKind::Counter { "_total" } else { "" };
        format!("{}{unit}{total}", self.name.replace('.', "_"))
    }
}

/// The doc comment without the space that it begins with.
const fn describe(text: &'static str) -> &'static str {
    match text.split_at_checked(1) {
        Some((_, text)) => text,
        None => text,
    }
}

#[cfg(test)]
mod tests;
