//! Metrics and traces.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::TcpStream;

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::json;
use vmcp_test_support::McpBackend;

use crate::collector::{Collector, attribute};
use crate::http::request;
use crate::mcp::{Stateful, Stateless, text};
use crate::program::{Folder, ServerProcess, vmcp, vmcp_with};

fn config(backend: &McpBackend, telemetry: &str) -> String {
    let url = backend.url();
    format!(
        "name: x\nincomingAuth: {{type: anonymous}}\nbackends:\n- {{name: a, url: \"{url}\", transport: streamable-http}}\n\
         telemetry: {{{telemetry}}}\n"
    )
}

fn metrics(port: u16) -> String {
    let mut body = String::new();
    let answer = request(port, "GET", "/metrics", &[], "");
    assert_eq!(answer.status, 200);
    answer.read(&mut body);
    body
}

#[test]
fn serves_metrics_only_when_enabled() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let shown = folder.write("vmcp.yaml", &config(&backend, "enablePrometheusMetricsPath: true"));
    let (_server, port) = ServerProcess::serve(&shown, &[]);
    assert_eq!(text(&Stateless(port).call("a_x", &json!({}))), "done");
    let found = metrics(port);
    for part in [
        "vmcp_mcp_requests_total",
        "a_x",
        "vmcp_connections",
        "vmcp_backend_requests_total",
        // As the dashboard and the alerts ask for it.
        r#"vmcp_backend_healthy{vmcp_backend_name="a"} 1"#,
        // One connection of the backend's background task, one of the event loop that handled the call.
        "vmcp_backend_connections 2",
        r#"vmcp_cache_entries{vmcp_cache_name="list_views"} 0"#,
    ] {
        assert!(found.contains(part), "{part}:\n{found}");
    }
    let hidden = folder.write("vmcp.yaml", &config(&backend, "serviceName: y"));
    let (_server, port) = ServerProcess::serve(&hidden, &[]);
    assert_eq!(request(port, "GET", "/metrics", &[], "").status, 404);
}

#[test]
fn workers_reuse_own_backend_connections() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let file = folder.write("vmcp.yaml", &config(&backend, "enablePrometheusMetricsPath: true"));
    let (_server, port) = ServerProcess::serve(&file, &["--threads", "2"]);
    let call = || assert_eq!(text(&Stateless(port).call("a_x", &json!({}))), "done");
    // One connection of the backend's background task, and one of each event loop. A client connection goes to the loop
    // with the fewest connections, so waiting connections direct the calls to one loop and the other in turn.
    let mut waiting = Vec::new();
    while backend.connections() < 3 {
        assert!(waiting.len() < 100, "one loop handles all calls");
        waiting.push(TcpStream::connect(("127.0.0.1", port)).unwrap());
        call();
    }
    (0..10).for_each(|_| call());
    assert_eq!(backend.connections(), 3);
    // Metrics are cached for a second, and not read before.
    let metrics = metrics(port);
    assert!(metrics.contains("vmcp_backend_connections 3"), "{metrics}");
}

#[test]
fn exports_complete_traces_and_metrics_to_collector() {
    let (folder, backend, collector) =
        (Folder::new(), McpBackend::stateless(&["x"]), Collector::start());
    let url = collector.url();
    let telemetry = format!(
        "endpoint: \"{url}\", insecure: true, headers: {{X-Key: canary}}, headersEnv: {{X-Tenant: TENANT}}, tracingEnabled: true, samplingRate: \"1.0\", \
         metricsEnabled: true, serviceName: gate, serviceVersion: \"7\", customAttributes: {{room: cellar}}, \
         environmentVariables: [STAGE], useLegacyAttributes: true"
    );
    let path = folder.write("vmcp.yaml", &config(&backend, &telemetry));
    let attribute = ["--telemetry-attribute", "floor=third"];
    let (server, port) = ServerProcess::serve_with(
        &path,
        &attribute,
        &[("STAGE", "prod-7"), ("TENANT", "canary-2")],
    );
    assert_eq!(text(&Stateless(port).call("a_x", &json!({}))), "done");
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    let (mut traces, mut metrics) = (String::new(), String::new());
    for got in collector.all() {
        assert_eq!(got.headers["x-key"], "canary");
        assert_eq!(got.headers["x-tenant"], "canary-2");
        let to = if got.path == "/v1/traces" { &mut traces } else { &mut metrics };
        to.push_str(&String::from_utf8_lossy(&got.message));
    }
    for part in
        ["tools/call a_x", "gate", "cellar", "third", "prod-7", "mcp.method.name", "mcp.tool.name"]
    {
        assert!(traces.contains(part), "{part} in {traces:?}");
    }
    assert!(metrics.contains("mcp.server.operation.duration") && metrics.contains("gate"));
    assert!(backend.requests().iter().any(|it| it.header("traceparent").starts_with("00-")));
    assert!(!log.contains("canary"), "{log}");
}

const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// The client's request names its place in a trace, and only that trace is recorded.
fn one_trace(client: bool, is_stateful: bool) {
    let start = if is_stateful { McpBackend::stateful } else { McpBackend::stateless };
    let (folder, backend) = (Folder::new(), start(&["x"]));
    let collector = Collector::start();
    let url = collector.url();
    let telemetry =
        format!("endpoint: \"{url}\", insecure: true, tracingEnabled: true, samplingRate: \"0.0\"");
    let path = folder.write("vmcp.yaml", &config(&backend, &telemetry));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let params = json!({"name": "a_x", "arguments": {}, "_meta": {"traceparent": PARENT}});
    let answer = if client {
        Stateful::open(port).ask("tools/call", &params)
    } else {
        Stateless(port).ask("tools/call", &params)
    };
    assert_eq!(text(&answer), "done");
    server.stop();
    let spans: Vec<Span> = collector.spans();
    assert!(spans.iter().all(|span| hex(&span.trace_id) == PARENT[3..35]), "{spans:?}");
    let of = |kind: SpanKind, name: &str| {
        let mut found = spans.iter().filter(|span| span.kind == kind as i32 && span.name == name);
        let span = found.next().unwrap_or_else(|| panic!("no {name} in {spans:?}"));
        assert!(found.next().is_none(), "two {name} in {spans:?}");
        span
    };
    let asked = of(SpanKind::Server, "tools/call a_x");
    assert_eq!(hex(&asked.parent_span_id), PARENT[36..52]);
    let sent = of(SpanKind::Client, "tools/call x");
    assert_eq!(sent.parent_span_id, asked.span_id);
    assert_eq!(attribute(sent, "mcp.method.name"), Some("tools/call"));
    assert_eq!(attribute(sent, "gen_ai.tool.name"), Some("x"));
    assert_eq!(attribute(sent, "vmcp.backend.name"), Some("a"));
    // The session that was opened for the call is part of it too.
    let opening: Vec<_> = spans.iter().filter(|span| span.name == "initialize").collect();
    assert_eq!(opening.len(), usize::from(is_stateful), "{spans:?}");
    assert!(opening.iter().all(|span| span.parent_span_id == asked.span_id));
    let place = format!("00-{}-{}-01", &PARENT[3..35], hex(&sent.span_id));
    let requests = backend.requests();
    let call = requests.iter().find(|it| it.message()["method"] == "tools/call").unwrap();
    assert_eq!(call.message()["params"]["_meta"]["traceparent"], place);
    assert_eq!(call.header("traceparent"), place);
}

#[test]
fn one_trace_spans_stateful_client_and_stateful_backend() {
    one_trace(true, true);
}

#[test]
fn one_trace_spans_stateful_client_and_stateless_backend() {
    one_trace(true, false);
}

#[test]
fn one_trace_spans_stateless_client_and_stateful_backend() {
    one_trace(false, true);
}

#[test]
fn one_trace_spans_stateless_client_and_stateless_backend() {
    one_trace(false, false);
}

#[test]
fn workflow_steps_are_children_of_run() {
    for start in [McpBackend::stateful, McpBackend::stateless] {
        let (folder, backend, collector) = (Folder::new(), start(&["x"]), Collector::start());
        let telemetry = format!(
            "endpoint: \"{}\", insecure: true, tracingEnabled: true, samplingRate: \"0.0\"",
            collector.url()
        );
        let tools = json!([{"name": "both", "steps": [
            {"id": "one", "tool": "a.x"}, {"id": "two", "tool": "a.x", "dependsOn": ["one"]},
        ]}]);
        let text = format!("{}compositeTools: {tools}\n", config(&backend, &telemetry));
        let path = folder.write("vmcp.yaml", &text);
        let (server, port) = ServerProcess::serve(&path, &[]);
        let params = json!({"name": "both", "arguments": {}, "_meta": {"traceparent": PARENT}});
        let response = Stateless(port).ask("tools/call", &params);
        assert_eq!(response["result"].get("isError"), None, "{response}");
        server.stop();
        let spans = collector.spans();
        let named = |name: &str| {
            let span = spans.iter().find(|span| span.name == name);
            span.unwrap_or_else(|| panic!("no {name} in {spans:?}"))
        };
        let run = named("invoke_workflow both");
        assert_eq!(run.parent_span_id, named("tools/call both").span_id);
        assert_eq!(
            (run.kind, attribute(run, "vmcp.workflow.outcome")),
            (SpanKind::Internal as i32, Some("completed"))
        );
        let sent = |step: &Span| {
            let below = spans.iter().filter(|span| span.parent_span_id == step.span_id);
            below.filter(|span| span.name == "tools/call x").count()
        };
        for id in ["one", "two"] {
            let step = named(&format!("step {id}"));
            assert_eq!((&step.parent_span_id, sent(step)), (&run.span_id, 1), "{spans:?}");
            assert_eq!(attribute(step, "vmcp.workflow.step.id"), Some(id));
        }
        assert!(spans.iter().all(|span| hex(&span.trace_id) == PARENT[3..35]), "{spans:?}");
    }
}

#[test]
fn exports_metrics_only_and_omits_disabled_legacy_names() {
    let (folder, backend, collector) =
        (Folder::new(), McpBackend::stateless(&["x"]), Collector::start());
    let url = collector.url();
    let telemetry = format!(
        "endpoint: \"{url}\", insecure: true, metricsEnabled: true, useLegacyAttributes: false"
    );
    let path = folder.write("vmcp.yaml", &config(&backend, &telemetry));
    let (server, port) = ServerProcess::serve(&path, &[]);
    assert_eq!(text(&Stateless(port).call("a_x", &json!({}))), "done");
    server.stop();
    let got = collector.all();
    assert!(!got.is_empty() && got.iter().all(|got| got.path == "/v1/metrics"), "{got:?}");
}

#[test]
fn rejects_unusable_telemetry_section_with_remedy() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    for (telemetry, path, says) in [
        ("tracingEnabled: true", "telemetry.endpoint", "found none; allowed: the URL"),
        (
            "metricsEnabled: true, endpoint: \"http://otel:4318\"",
            "telemetry.endpoint",
            "insecure: true",
        ),
        (
            "metricsEnabled: true, endpoint: \"otel:4318\", caCertPath: /no/ca.pem",
            "telemetry.caCertPath",
            "PEM",
        ),
        (
            "metricsEnabled: true, endpoint: \"otel:4318\", headers: {X-A: \"hunter2\\n\"}",
            "telemetry.headers",
            "found the value of x-a; allowed: text that can stand in a header",
        ),
    ] {
        let file = folder.write("vmcp.yaml", &config(&backend, telemetry));
        let ended = vmcp(&["validate", "--config", &file]);
        assert_eq!(ended.code, 1, "{telemetry}: {ended:?}");
        assert!(ended.err.contains(path) && ended.err.contains(says), "{telemetry}: {ended:?}");
        assert!(!ended.err.contains("hunter2"), "{ended:?}");
    }
    let file = folder
        .write("vmcp.yaml", &config(&backend, "metricsEnabled: true, endpoint: \"otel:4317\""));
    let validate = |protocol| vmcp_with(&["validate", "--config", &file], &[(PROTOCOL, protocol)]);
    let ended = validate("http/json");
    assert!(ended.code == 1 && ended.err.contains("grpc or http/protobuf"), "{ended:?}");
    assert_eq!(validate("grpc").code, 0);
}

/// One call of a server that has been told to send all it can to a collector.
fn sent(collector: &Collector, protocol: &str, more: &str) -> String {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let telemetry = format!(
        "endpoint: \"{}\", tracingEnabled: true, samplingRate: \"1.0\", metricsEnabled: true, {more}",
        collector.url()
    );
    let path = folder.write("vmcp.yaml", &config(&backend, &telemetry));
    let (server, port) = ServerProcess::serve_with(&path, &[], &[(PROTOCOL, protocol)]);
    assert_eq!(text(&Stateless(port).call("a_x", &json!({}))), "done");
    server.stop().1
}

const OVER_HTTP: [&str; 2] = ["/v1/metrics", "/v1/traces"];

const OVER_GRPC: [&str; 2] = [
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
];

/// Returns the paths that received exports, each once. All requests must have the same HTTP version.
fn paths(collector: &Collector, version: http::Version) -> Vec<String> {
    let got = collector.all();
    assert!(got.iter().all(|got| got.version == version), "{got:?}");
    got.into_iter().map(|got| got.path).collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn exports_grpc_without_tls_by_prior_knowledge() {
    let collector = Collector::start();
    let log = sent(&collector, "grpc", "insecure: true");
    assert_eq!(paths(&collector, http::Version::HTTP_2), OVER_GRPC, "{log}");
}

#[test]
fn trusts_collector_certificate_only_by_bundle() {
    for (protocol, expected) in [("http/protobuf", OVER_HTTP), ("grpc", OVER_GRPC)] {
        let (folder, collector) = (Folder::new(), Collector::encrypted());
        let bundle = folder.write("ca.pem", collector.authority.as_deref().unwrap());
        let log = sent(&collector, protocol, &format!("caCertPath: {bundle}"));
        assert_eq!(paths(&collector, http::Version::HTTP_2), expected, "{protocol}: {log}");
        sent(&collector, protocol, "serviceName: x");
        assert!(collector.all().is_empty(), "{protocol}");
    }
}

#[test]
fn changed_telemetry_section_requires_restart() {
    let (folder, backend) = (Folder::new(), McpBackend::stateless(&["x"]));
    let path = folder.write("vmcp.yaml", &config(&backend, "enablePrometheusMetricsPath: true"));
    let (server, port) = ServerProcess::serve(&path, &[]);
    folder.write("vmcp.yaml", &config(&backend, "enablePrometheusMetricsPath: false"));
    server.signal("HUP");
    server.logs("at a restart only");
    assert_eq!(request(port, "GET", "/metrics", &[], "").status, 200);
}
