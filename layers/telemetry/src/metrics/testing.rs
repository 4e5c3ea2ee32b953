//! Test support: the Prometheus exposition of one failed call.

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Encoder as _, Registry, TextEncoder};
use vmcp_core::Backend;

use crate::metrics::{
    ClientMetrics, ErrorType, HttpMetrics, Outcome, RunOutcome, ServerMetrics, StepOutcome,
    WorkflowMetrics, names,
};

/// Returns all metrics of one failed call, and some that a server feeds.
pub(crate) fn exposition(legacy: bool) -> String {
    let registry = Registry::new();
    let reader = opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        .scope_info_enabled(false)
        .build()
        .unwrap();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let meter = provider.meter("tests");
    let outcome = Outcome {
        http_method: "POST",
        status: 200,
        error_type: ErrorType::TOOL,
        ..Outcome::default()
    };
    let server = ServerMetrics::new(&meter, "gateway".into());
    server.request_started();
    server.record(&server.bind("tools/call", Some("t"), true), outcome, 0.1);
    let client = ClientMetrics::new(&meter, legacy).backend(&Backend::new("meteo"));
    let broken = Outcome { error_type: ErrorType::BROKEN, ..outcome };
    client.record(&client.bind("tools/call", Some("t")), broken, 0.1);
    _ = meter
        .u64_observable_gauge(names::BACKEND_HEALTHY.name)
        .with_callback(|gauge| gauge.observe(1, &[KeyValue::new(names::BACKEND, "meteo")]))
        .build();
    let shown =
        Outcome { http_method: "GET", status: 503, error_type: ErrorType::Status(503), ..outcome };
    HttpMetrics::new(&meter).record(Some("/oauth/authorize"), shown, 0.1);
    _ = meter
        .u64_observable_gauge(names::AUTH_STORED.name)
        .with_callback(|gauge| gauge.observe(1, &[KeyValue::new(names::AUTH_KIND, "clients")]))
        .build();
    _ = meter
        .u64_observable_gauge(names::CACHE_ENTRIES.name)
        .with_callback(|gauge| gauge.observe(1, &[KeyValue::new(names::CACHE_NAME, "list_views")]))
        .build();
    _ = meter
        .u64_observable_counter(names::TOOL_SEARCHES.name)
        .with_callback(|counter| {
            counter.observe(1, &[KeyValue::new(names::SEARCH_MODE, "hybrid")]);
        })
        .build();
    let workflows = WorkflowMetrics::new(&meter);
    workflows.record_run("t", RunOutcome::Failed, 0.1);
    workflows.record_step(StepOutcome::Failed, 0.1);
    _ = meter
        .u64_observable_gauge(names::WORKFLOW_RUNS_ACTIVE.name)
        .with_callback(|gauge| {
            gauge.observe(1, &[KeyValue::new(names::WORKFLOW_STATUS, "running")]);
        })
        .build();
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}
