//! The instruments of requests to the gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundCounter, BoundHistogram, Counter, Histogram, Meter};

use crate::answer::Fault;
use crate::names::{self, BUCKETS, Metric};
use crate::series::{Budget, Outcome, Slot, Table};

/// What requests to the gateway are recorded with.
#[derive(Debug)]
pub(crate) struct ServerSide {
    duration: Histogram<f64>,
    requests: Counter<u64>,
    request_duration: Histogram<f64>,
    tool_calls: Counter<u64>,
    server: String,
    pub(crate) active: Arc<AtomicI64>,
    pub(crate) table: Table<Series>,
}

/// The instruments, for one set of labels.
#[derive(Debug)]
pub(crate) struct Series {
    /// Absent for what is no MCP operation.
    duration: Option<BoundHistogram<f64>>,
    requests: BoundCounter<u64>,
    request_duration: BoundHistogram<f64>,
    tool_calls: Option<BoundCounter<u64>>,
}

impl ServerSide {
    pub(crate) fn new(meter: &Meter, server: String) -> Self {
        let active = Arc::new(AtomicI64::new(0));
        let labels = [KeyValue::new("server", server.clone()), transport()];
        let read = Arc::clone(&active);
        // The meter keeps the callback; the instrument's handle has no use.
        _ = meter
            .i64_observable_up_down_counter(names::ACTIVE.name)
            .with_description(names::ACTIVE.description)
            .with_callback(move |gauge| gauge.observe(read.load(Ordering::Relaxed), &labels))
            .build();
        Self {
            duration: histogram(meter, &names::SERVER_DURATION),
            requests: counter(meter, &names::REQUESTS),
            request_duration: histogram(meter, &names::REQUEST_DURATION),
            tool_calls: counter(meter, &names::TOOL_CALLS),
            server,
            active,
            table: Table::new(Budget::new()),
        }
    }

    pub(crate) fn record(&self, slot: &Slot<Series>, outcome: Outcome, seconds: f64) {
        slot.record(
            outcome,
            |slot, outcome| self.series(slot, outcome),
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

    fn series(&self, slot: &Slot<Series>, outcome: &Outcome) -> Series {
        let failed = outcome.fault != Fault::None;
        let status = KeyValue::new("status", if failed { "error" } else { "success" });
        let name = slot.name.as_deref().unwrap_or_default().to_owned();
        let server = KeyValue::new("server", self.server.clone());
        let request = [
            KeyValue::new("method", outcome.verb),
            KeyValue::new("status_code", i64::from(outcome.status)),
            status.clone(),
            KeyValue::new("mcp_method", slot.method),
            KeyValue::new("mcp_resource_id", name.clone()),
            server.clone(),
            transport(),
        ];
        let is_call = slot.method == "tools/call";
        let is_operation = !slot.method.is_empty();
        Series {
            duration: is_operation.then(|| self.duration.bind(&operation(slot, outcome))),
            requests: self.requests.bind(&request),
            request_duration: self.request_duration.bind(&request),
            tool_calls: is_call
                .then(|| self.tool_calls.bind(&[server, KeyValue::new("tool", name), status])),
        }
    }
}

/// The only transport that requests to the gateway come by.
fn transport() -> KeyValue {
    KeyValue::new("transport", "streamable-http")
}

/// The attributes of an operation's duration (OpenTelemetry semantic conventions for MCP).
pub(crate) fn operation<S>(slot: &Slot<S>, outcome: &Outcome) -> Vec<KeyValue> {
    let mut labels = vec![
        KeyValue::new("mcp.method.name", slot.method),
        KeyValue::new("jsonrpc.protocol.version", "2.0"),
        KeyValue::new("network.transport", "tcp"),
        KeyValue::new("network.protocol.name", "http"),
    ];
    let optional =
        [("network.protocol.version", outcome.http), ("mcp.protocol.version", outcome.revision)];
    let known = optional.into_iter().filter(|(_, value)| !value.is_empty());
    labels.extend(known.map(|(key, value)| KeyValue::new(key, value)));
    labels.extend(outcome.fault.label().map(|fault| KeyValue::new("error.type", fault)));
    labels.extend(target(slot.method, slot.name.as_deref()));
    labels
}

/// The attributes that say which tool or prompt.
pub(crate) fn target(method: &str, name: Option<&str>) -> Vec<KeyValue> {
    let name = name.map(str::to_owned);
    match method {
        "tools/call" => {
            let mut target = vec![KeyValue::new("gen_ai.operation.name", "execute_tool")];
            target.extend(name.map(|name| KeyValue::new("gen_ai.tool.name", name)));
            target
        }
        "prompts/get" => {
            name.map(|name| KeyValue::new("gen_ai.prompt.name", name)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

pub(crate) fn histogram(meter: &Meter, metric: &Metric) -> Histogram<f64> {
    meter
        .f64_histogram(metric.name)
        .with_unit(metric.unit)
        .with_description(metric.description)
        .with_boundaries(BUCKETS.to_vec())
        .build()
}

pub(crate) fn counter(meter: &Meter, metric: &Metric) -> Counter<u64> {
    meter.u64_counter(metric.name).with_description(metric.description).build()
}
