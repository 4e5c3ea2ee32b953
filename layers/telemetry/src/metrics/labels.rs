//! Instruments and labels of servers and clients.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};

use crate::metrics::names::{DURATION_BUCKETS, Metric};
use crate::metrics::{BoundInstruments, Outcome};

/// Attributes whose values are names of tools and prompts, or [`OTHER`](crate::metrics::names::OTHER).
pub const NAME_ATTRIBUTES: [&str; 5] =
    ["gen_ai.prompt.name", "gen_ai.tool.name", "mcp_resource_id", "tool", "tool_name"];

/// Returns the attributes of an operation's duration (OpenTelemetry semantic conventions for MCP).
pub(crate) fn operation_attributes<S>(
    bound: &BoundInstruments<S>,
    outcome: &Outcome,
) -> Vec<KeyValue> {
    let mut labels = vec![
        KeyValue::new("mcp.method.name", bound.method()),
        KeyValue::new("jsonrpc.protocol.version", "2.0"),
        KeyValue::new("network.transport", "tcp"),
        KeyValue::new("network.protocol.name", "http"),
    ];
    let optional = [
        ("network.protocol.version", outcome.http_version),
        ("mcp.protocol.version", outcome.protocol_version),
    ];
    let known = optional.into_iter().filter(|(_, value)| !value.is_empty());
    labels.extend(known.map(|(key, value)| KeyValue::new(key, value)));
    labels.extend(
        outcome.error_type.label().map(|error_type| KeyValue::new("error.type", error_type)),
    );
    labels.extend(target_attributes(bound.method(), bound.name()));
    labels
}

/// Returns the attributes that name the tool or prompt.
#[must_use]
pub fn target_attributes(method: &str, name: Option<&str>) -> Vec<KeyValue> {
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
        .with_boundaries(DURATION_BUCKETS.to_vec())
        .build()
}

pub(crate) fn counter(meter: &Meter, metric: &Metric) -> Counter<u64> {
    meter.u64_counter(metric.name).with_description(metric.description).build()
}
