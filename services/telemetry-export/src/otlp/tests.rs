use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Full};
use tower::{Service, ServiceExt};
use tower_layer::Layer;
use vmcp_core::BoxError;

use super::*;
use crate::{Headers, SamplingRatio, Settings, Telemetry};

/// Collector that records requests.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ReceivedRequest>>>);

struct ReceivedRequest {
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Collector {
    fn service<R: Send + 'static>(
        &self,
        answer: impl Fn() -> Response<R> + Clone + Send + 'static,
    ) -> impl Service<Request<Body>, Response = Response<R>, Error = BoxError, Future: Send>
    + Clone
    + Send
    + 'static {
        let got = Arc::clone(&self.0);
        tower::service_fn(move |request: Request<Body>| {
            let (got, answer) = (Arc::clone(&got), answer.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let path = parts.uri.to_string();
                got.lock().unwrap().push(ReceivedRequest { path, headers: parts.headers, body });
                Ok(answer())
            }
        })
    }
}

fn settings() -> Settings {
    let secret = "Bearer canary".into();
    Settings {
        endpoint: Some(Endpoint::new("http://otel:4318/base", true).unwrap()),
        headers: Headers::new([("authorization", &secret)]).unwrap(),
        sampling: Some(SamplingRatio::try_from(1.0).unwrap()),
        metrics: true,
        service_name: Some("gateway".into()),
        ..Settings::default()
    }
}

async fn send_request(telemetry: &Telemetry) {
    let inner = tower::service_fn(|_: Request<()>| async {
        Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
    });
    telemetry.incoming().layer(inner).oneshot(Request::new(())).await.unwrap();
}

#[tokio::test]
async fn exports_both_signals_over_http() {
    let collector = Collector::default();
    let client = collector.service(|| Response::new(Full::<Bytes>::default()));
    let builder = Telemetry::builder(settings()).otlp(client).unwrap();
    let telemetry = builder.build().unwrap();
    send_request(&telemetry).await;
    telemetry.shutdown(Duration::from_secs(5)).await.unwrap();
    let got = collector.0.lock().unwrap();
    let mut paths: Vec<_> = got.iter().map(|got| got.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["http://otel:4318/base/v1/metrics", "http://otel:4318/base/v1/traces"]);
    for got in &*got {
        assert_eq!(got.headers["authorization"], "Bearer canary");
        assert!(got.headers["authorization"].is_sensitive());
        assert_eq!(got.headers["content-type"], "application/x-protobuf");
        assert!(got.body.windows(7).any(|window| window == b"gateway"));
    }
}

/// Returns the response of a gRPC server: a message, and its status in the trailers.
fn grpc_response(status: &'static str) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static(status));
    let message = Full::new(Bytes::from_static(&[0, 0, 0, 0, 0]));
    Response::new(Body::wrap(message.with_trailers(async { Some(Ok(trailers)) })))
}

#[tokio::test]
async fn exports_both_signals_over_grpc() {
    let collector = Collector::default();
    let client = collector.service(|| grpc_response("0"));
    let telemetry = Telemetry::builder(settings())
        .environment(|name| (name == "OTEL_EXPORTER_OTLP_PROTOCOL").then(|| "grpc".to_owned()))
        .otlp(client)
        .unwrap()
        .build()
        .unwrap();
    send_request(&telemetry).await;
    telemetry.shutdown(Duration::from_secs(5)).await.unwrap();
    let got = collector.0.lock().unwrap();
    let mut paths: Vec<_> = got.iter().map(|got| got.path.as_str()).collect();
    paths.sort_unstable();
    let base = "http://otel:4318/base/opentelemetry.proto.collector";
    let expected = [
        format!("{base}.metrics.v1.MetricsService/Export"),
        format!("{base}.trace.v1.TraceService/Export"),
    ];
    assert_eq!(paths, expected);
    for got in &*got {
        assert_eq!(got.headers["content-type"], "application/grpc");
        assert_eq!(got.headers["te"], "trailers");
        assert_eq!(got.headers["authorization"], "Bearer canary");
        let length = u32::from_be_bytes(got.body[1..5].try_into().unwrap());
        assert_eq!((got.body[0], length as usize), (0, got.body.len() - 5));
    }
}

#[tokio::test]
async fn maps_grpc_status_to_http_status() {
    for (status, expected) in [
        ("0", Ok(StatusCode::OK)),
        ("14", Ok(StatusCode::SERVICE_UNAVAILABLE)),
        ("16", Ok(StatusCode::UNAUTHORIZED)),
        ("3", Ok(StatusCode::BAD_REQUEST)),
        ("nonsense", Err(ExportError::InvalidResponse)),
    ] {
        let answer = grpc::read_response(grpc_response(status)).await.map(|answer| answer.status());
        assert_eq!(answer, expected, "{status}");
    }
    let without_message = Response::builder().header("grpc-status", "8").body(Body::empty());
    let answer = grpc::read_response(without_message.unwrap()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn rejects_endless_response() {
    let endless = vec![0; MAX_RESPONSE_SIZE + 1];
    let answer = Response::new(Body::from(Bytes::from(endless)));
    assert_eq!(grpc::read_response(answer).await.unwrap_err(), ExportError::InvalidResponse);
}

#[tokio::test]
async fn rejects_unsupported_protocol() {
    let client = Collector::default().service(|| grpc_response("0"));
    let builder = Telemetry::builder(settings()).environment(|_| Some("http/json".to_owned()));
    let error = builder.otlp(client).unwrap_err().to_string();
    assert!(error.contains("http/json") && error.contains("grpc or http/protobuf"), "{error}");
}

#[tokio::test]
async fn counts_failed_exports_without_leaking_secrets() {
    let client = tower::service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, BoxError>("canary".into())
    });
    let settings = Settings { metrics: false, prometheus: true, ..settings() };
    let builder = Telemetry::builder(settings).otlp(client).unwrap();
    let telemetry = builder.build().unwrap();
    send_request(&telemetry).await;
    let error = telemetry.flush_spans().await;
    assert!(!format!("{error:?} {telemetry:?}").contains("canary"), "{error:?}");
    let text = telemetry.scrape().unwrap().text();
    let text = std::str::from_utf8(&text).unwrap();
    let line = text.lines().find(|line| line.starts_with("vmcp_telemetry_export_failures_total"));
    let failures: u64 = line.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(failures > 0);
}
