//! Traces and metrics at a collector that somebody else wrote.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tower::{Layer, ServiceExt, service_fn};
use vmcp_core::{Body, Generation, McpRequest, Trail};
use vmcp_telemetry_export::{Endpoint, Headers, SamplingRatio, Settings, Telemetry};
use vmcp_tests::counterparts::{Collector, skipped};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn settings(endpoint: &str, secret: &str) -> Settings {
    Settings {
        endpoint: Some(Endpoint::new(endpoint, true).unwrap()),
        headers: Headers::new([("authorization", &secret.into())]).unwrap(),
        sampling: Some(SamplingRatio::try_from(1.0).unwrap()),
        metrics: true,
        service_name: Some("gateway".into()),
        custom_attributes: BTreeMap::from([("team".into(), "tests".into())]),
        ..Settings::default()
    }
}

/// Everything that one call gives to record, sent before this returns.
async fn record(settings: Settings, protocol: &'static str) -> bool {
    let client =
        Client::builder(TokioExecutor::new()).http2_only(protocol == "grpc").build_http::<Body>();
    let telemetry = Telemetry::builder(settings)
        .environment(move |name| {
            (name == "OTEL_EXPORTER_OTLP_PROTOCOL").then(|| protocol.to_owned())
        })
        .otlp(client)
        .unwrap()
        .build()
        .unwrap();
    let inner = service_fn(|mut request: Request<()>| async move {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"weather"}}"#;
        let bytes = Bytes::from_static(text.as_bytes());
        let envelope = vmcp_wire::scan(&bytes).unwrap();
        let message = McpRequest { bytes, envelope, generation: Generation::Stateless };
        Trail::of(request.extensions_mut()).note_message(&message);
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let request = Request::post("/mcp").header("traceparent", PARENT).body(()).unwrap();
    let response = telemetry.incoming().layer(inner).oneshot(request).await.unwrap();
    response.into_body().collect().await.unwrap();
    telemetry.shutdown(Duration::from_secs(20)).await.is_ok()
}

fn text<'a>(list: &'a Value, key: &str) -> Option<&'a str> {
    let found = list.as_array()?.iter().find(|one| one["key"] == key)?;
    found["value"]["stringValue"].as_str()
}

fn check(collector: &Collector, over: &str) {
    let traces = collector.got(over, "traces");
    let resource = &traces[0]["resourceSpans"][0];
    assert_eq!(text(&resource["resource"]["attributes"], "service.name"), Some("gateway"));
    assert_eq!(text(&resource["resource"]["attributes"], "team"), Some("tests"));
    let span = &resource["scopeSpans"][0]["spans"][0];
    assert_eq!(
        (&span["name"], &span["kind"]),
        (&"tools/call weather".into(), &"SPAN_KIND_SERVER".into())
    );
    assert_eq!(text(&span["attributes"], "gen_ai.tool.name"), Some("weather"));
    let metrics = collector.got(over, "metrics").pop().unwrap();
    let metrics = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].clone();
    let duration = metrics
        .as_array()
        .unwrap()
        .iter()
        .find(|metric| metric["name"] == "mcp.server.operation.duration");
    let duration = duration.unwrap();
    assert_eq!(duration["unit"], "s");
    let point = &duration["histogram"]["dataPoints"][0];
    assert_eq!(point["count"], "1");
    assert_eq!(point["explicitBounds"].as_array().unwrap().len(), 14);
    assert_eq!(text(&point["attributes"], "mcp.method.name"), Some("tools/call"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_takes_traces_and_metrics_over_http_and_over_grpc() {
    if skipped() {
        return;
    }
    let collector = Collector::start().await.unwrap();
    assert!(record(settings(&collector.http(), Collector::SECRET), "http/protobuf").await);
    check(&collector, "http");
    assert!(record(settings(&collector.grpc(), Collector::SECRET), "grpc").await);
    check(&collector, "grpc");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_send_learns_it_over_http_and_over_grpc() {
    if skipped() {
        return;
    }
    let collector = Collector::start().await.unwrap();
    assert!(!record(settings(&collector.http(), "wrong"), "http/protobuf").await);
    assert!(!record(settings(&collector.grpc(), "wrong"), "grpc").await);
    for (over, kind) in [("http", "traces"), ("grpc", "metrics")] {
        assert!(collector.got(over, kind).is_empty());
    }
}
