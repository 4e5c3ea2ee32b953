//! Traces and metrics at an independent collector.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use serde_json::Value;
use tower::{Layer, ServiceExt, service_fn};
use vmcp_core::{Generation, McpRequest, RequestContext};
use vmcp_egress::{Egress, FetchAddresses, FetchPolicy, Fetcher, Versions};
use vmcp_telemetry_export::{Endpoint, Headers, SamplingRatio, Settings, Telemetry};
use vmcp_tests::counterparts::{Collector, skipped};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn settings(endpoint: &str, secret: &str) -> Settings {
    let insecure = endpoint.starts_with("http:");
    Settings {
        endpoint: Some(Endpoint::new(endpoint, insecure).unwrap()),
        headers: Headers::new([("authorization", &secret.into())]).unwrap(),
        sampling: Some(SamplingRatio::try_from(1.0).unwrap()),
        metrics: true,
        service_name: Some("gateway".into()),
        custom_attributes: BTreeMap::from([("team".into(), "tests".into())]),
        ..Settings::default()
    }
}

/// Records all signals of one call, and exports them before it returns.
async fn record(settings: Settings, protocol: &'static str, ca_bundle: Option<&Path>) -> bool {
    let policy = FetchPolicy {
        addresses: FetchAddresses::Any,
        http: true,
        ca_bundle: ca_bundle.map(Path::to_owned),
        versions: if protocol == "grpc" { Versions::Http2 } else { Versions::Negotiated },
        ..FetchPolicy::configured()
    };
    let client = Fetcher::new(Egress::default(), policy).unwrap();
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
        RequestContext::of(request.extensions_mut()).record_message(&message);
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
async fn exports_traces_and_metrics_over_http_and_grpc() {
    if skipped() {
        return;
    }
    let collector = Collector::start().await.unwrap();
    assert!(record(settings(&collector.http(), Collector::SECRET), "http/protobuf", None).await);
    check(&collector, "http");
    assert!(record(settings(&collector.grpc(), Collector::SECRET), "grpc", None).await);
    check(&collector, "grpc");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_rejected_exports_over_http_and_grpc() {
    if skipped() {
        return;
    }
    let collector = Collector::start().await.unwrap();
    assert!(!record(settings(&collector.http(), "wrong"), "http/protobuf", None).await);
    assert!(!record(settings(&collector.grpc(), "wrong"), "grpc", None).await);
    for (over, kind) in [("http", "traces"), ("grpc", "metrics")] {
        assert!(collector.got(over, kind).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trusts_collector_certificate_over_http_and_grpc() {
    if skipped() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("vmcp-otlp-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let params = |name: &str| CertificateParams::new(vec![name.to_owned()]).unwrap();
    let mut authority = params("authority");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = params("localhost").signed_by(&key, &authority).unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let bundle = write("ca.pem", &authority.pem());
    let (chain, key) =
        (write("chain.pem", &certificate.pem()), write("key.pem", &key.serialize_pem()));
    let collector = Collector::encrypted(&chain, &key).await.unwrap();
    for (over, protocol, endpoint) in
        [("http", "http/protobuf", collector.http()), ("grpc", "grpc", collector.grpc())]
    {
        let settings = settings(&endpoint, Collector::SECRET);
        assert!(!record(settings.clone(), protocol, None).await, "{over}");
        assert!(record(settings, protocol, Some(&bundle)).await, "{over}");
        check(&collector, over);
    }
    std::fs::remove_dir_all(folder).unwrap();
}
