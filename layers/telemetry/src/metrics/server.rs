//! Metrics of requests to the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundCounter, BoundHistogram, Counter, Histogram, Meter};

use crate::metrics::labels::{counter, histogram, operation_attributes};
use crate::metrics::names;
use crate::metrics::series::{InstrumentTable, NameBudget};
use crate::metrics::{BoundInstruments, ErrorType, Outcome};

/// Metrics of requests to the gateway.
#[derive(Debug)]
pub struct ServerMetrics {
    duration: Histogram<f64>,
    requests: Counter<u64>,
    request_duration: Histogram<f64>,
    tool_calls: Counter<u64>,
    server: String,
    active: Arc<AtomicI64>,
    table: InstrumentTable<ServerSeries>,
}

/// Instruments bound to one set of labels.
#[derive(Debug)]
pub struct ServerSeries {
    /// `None` for requests that are not MCP operations.
    duration: Option<BoundHistogram<f64>>,
    requests: BoundCounter<u64>,
    request_duration: BoundHistogram<f64>,
    tool_calls: Option<BoundCounter<u64>>,
}

impl ServerMetrics {
    /// Creates the instruments of `meter`. `server` is the value of the label of that name.
    #[must_use]
    pub fn new(meter: &Meter, server: String) -> Self {
        let active = Arc::new(AtomicI64::new(0));
        let labels = [KeyValue::new("server", server.clone()), transport()];
        let counter_handle = Arc::clone(&active);
        // The meter keeps the callback; the handle of the instrument has no use.
        _ = meter
            .i64_observable_up_down_counter(names::ACTIVE.name)
            .with_description(names::ACTIVE.description)
            .with_callback(move |gauge| {
                gauge.observe(counter_handle.load(Ordering::Relaxed), &labels);
            })
            .build();
        Self {
            duration: histogram(meter, &names::SERVER_DURATION),
            requests: counter(meter, &names::REQUESTS),
            request_duration: histogram(meter, &names::REQUEST_DURATION),
            tool_calls: counter(meter, &names::TOOL_CALLS),
            server,
            active,
            table: InstrumentTable::new(NameBudget::new()),
        }
    }

    /// Merges all names of tools and prompts into `_OTHER` from now on.
    pub fn hide_names(&self) {
        self.table.hide_names();
    }

    /// Counts a request in flight.
    pub fn request_started(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a request in flight.
    pub fn request_ended(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the instruments of an operation. A new name becomes a label only if `is_known`, that is, if an item of
    /// this name exists.
    pub fn bind(
        &self,
        method: &str,
        name: Option<&str>,
        is_known: bool,
    ) -> Arc<BoundInstruments<ServerSeries>> {
        self.table.bind(method, name, is_known)
    }

    /// Records a request that took `seconds`.
    pub fn record(&self, bound: &BoundInstruments<ServerSeries>, outcome: Outcome, seconds: f64) {
        bound.record(
            outcome,
            |bound, outcome| self.series(bound, outcome),
            |series| {
                series.requests.add(1);
                series.request_duration.record(seconds);
                if let Some(duration) = &series.duration {
                    duration.record(seconds);
                }
                if let Some(calls) = &series.tool_calls {
                    calls.add(1);
                }
            },
        );
    }

    fn series(&self, bound: &BoundInstruments<ServerSeries>, outcome: &Outcome) -> ServerSeries {
        let is_failure = outcome.error_type != ErrorType::None;
        let status = KeyValue::new("status", if is_failure { "error" } else { "success" });
        let name = bound.name().unwrap_or_default().to_owned();
        let server = KeyValue::new("server", self.server.clone());
        let request = [
            KeyValue::new("method", outcome.http_method),
            KeyValue::new("status_code", i64::from(outcome.status)),
            status.clone(),
            KeyValue::new("mcp_method", bound.method()),
            KeyValue::new("mcp_resource_id", name.clone()),
            server.clone(),
            transport(),
        ];
        let is_call = bound.method() == "tools/call";
        let is_operation = !bound.method().is_empty();
        ServerSeries {
            duration: is_operation
                .then(|| self.duration.bind(&operation_attributes(bound, outcome))),
            requests: self.requests.bind(&request),
            request_duration: self.request_duration.bind(&request),
            tool_calls: is_call
                .then(|| self.tool_calls.bind(&[server, KeyValue::new("tool", name), status])),
        }
    }
}

/// Returns the label of the transport; the gateway serves only one.
fn transport() -> KeyValue {
    KeyValue::new("transport", "streamable-http")
}
