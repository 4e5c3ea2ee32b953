//! Metrics that this crate records, and [`declare_metrics`](crate::declare_metrics) for those of other crates.

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

/// Label with the outcome of a run or step of a composite tool.
pub const WORKFLOW_OUTCOME: &str = "vmcp.workflow.outcome";

/// Label value for everything beyond a limit.
pub const OTHER: &str = "_OTHER";

/// Declares a [`Metric`] constant for each entry, with its doc comment as the description, and the list `METRICS` of all.
///
/// ```
/// vmcp_telemetry::declare_metrics! {
///     /// Open files.
///     OPEN_FILES = Gauge "mine_open_files" "";
/// }
/// assert_eq!(METRICS, [OPEN_FILES]);
/// assert_eq!(OPEN_FILES.description, "Open files.");
/// ```
#[macro_export]
macro_rules! declare_metrics {
    ($($(#[doc = $text:literal])+ $constant:ident = $kind:ident $name:literal $unit:literal;)+) => {
        $(
            $(#[doc = $text])+
            pub const $constant: $crate::metrics::names::Metric = $crate::metrics::names::Metric {
                name: $name,
                kind: $crate::metrics::names::MetricKind::$kind,
                unit: $unit,
                description: $crate::metrics::names::describe(concat!($($text),+)),
            };
        )+

        /// All metrics of this module.
        pub const METRICS: &[$crate::metrics::names::Metric] = &[$($constant),+];
    };
}

crate::declare_metrics! {
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
    /// Runs of composite tools that ended, by tool and outcome.
    WORKFLOW_RUNS = Counter "vmcp_workflow_runs" "";
    /// Duration of runs of composite tools, waits for the user included.
    WORKFLOW_DURATION = Histogram "vmcp_workflow_duration" "s";
    /// Steps of composite tools that ended, by outcome.
    WORKFLOW_STEPS = Counter "vmcp_workflow_steps" "";
    /// Duration of steps of composite tools, waits for the user included.
    WORKFLOW_STEP_DURATION = Histogram "vmcp_workflow_step_duration" "s";
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
#[doc(hidden)]
#[must_use]
pub const fn describe(text: &'static str) -> &'static str {
    match text.split_at_checked(1) {
        Some((_, text)) => text,
        None => text,
    }
}
