//! OpenTelemetry metrics for MCP servers, gateways and clients, with bounded labels.
//!
//! [`ServerMetrics`] records requests that a server answers, [`ClientMetrics`] requests to backends, [`HttpMetrics`]
//! requests to other endpoints, by route template, and [`WorkflowMetrics`] runs of composite tools. All record through a given meter; the layers of this crate feed them.
//!
//! ```rust
//! use opentelemetry::metrics::{MeterProvider, NoopMeterProvider};
//! use vmcp_telemetry::metrics::{Outcome, ServerMetrics};
//!
//! let meter = NoopMeterProvider::new().meter("mine");
//! let metrics = ServerMetrics::new(&meter, "gateway".to_owned());
//!
//! metrics.request_started();
//! let instruments = metrics.bind("tools/call", Some("weather"), true);
//! let outcome =
//!     Outcome { http_method: "POST", status: 200, http_version: "1.1", ..Outcome::default() };
//! metrics.record(&instruments, outcome, 0.012);
//! metrics.request_ended();
//! ```
//!
//! [`names`] lists the metrics; [`declare_metrics`](crate::declare_metrics) declares those that a server feeds from its own counters.

pub mod names;

mod client;
mod http;
mod labels;
mod outcome;
mod series;
mod server;
mod workflow;

pub use self::{
    client::{BackendMetrics, ClientMetrics, ClientSeries, legacy_action},
    http::HttpMetrics,
    labels::{NAME_ATTRIBUTES, target_attributes},
    outcome::{ErrorType, Outcome},
    series::{BoundInstruments, MAX_NAME_LEN, MAX_NAMES, MAX_SERIES},
    server::{ServerMetrics, ServerSeries},
    workflow::{RunOutcome, StepOutcome, WorkflowMetrics},
};
