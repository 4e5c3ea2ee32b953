use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use opentelemetry::trace::SpanKind;
use tower::ServiceExt;
use tower_layer::Layer;
use vmcp_core::{Backend, Body, BoxError, CredentialError, CredentialFault, Trail};

use crate::testing::{Fixture, PARENT};
use crate::{InMessage, Operation, Settings, Trace, TraceContext};

const MESSAGE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;

fn request() -> Request<Full<Bytes>> {
    let mut request = Request::post("http://backend/mcp").body(Full::from(MESSAGE)).unwrap();
    request.extensions_mut().insert(Backend::new("meteo"));
    request.extensions_mut().insert(Operation::new("tools/call").named("t"));
    request
}

/// What the backend got.
struct Got {
    headers: HeaderMap,
    body: String,
}

async fn sent(fixture: &Fixture, request: Request<Full<Bytes>>, answer: &'static str) -> Got {
    let (send, got) = tokio::sync::oneshot::channel();
    let mut send = Some(send);
    let inner = tower::service_fn(move |request: Request<Full<Bytes>>| {
        let send = send.take();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body = String::from_utf8(body.to_vec()).unwrap();
            _ = send.map(|send| send.send(Got { headers: parts.headers, body }));
            let response = Response::builder().header("content-type", "application/json");
            Ok::<_, BoxError>(response.body(Body::from(Bytes::from_static(answer.as_bytes())))?)
        }
    });
    let layer = fixture.telemetry.outgoing().propagate(InMessage);
    let response = layer.layer(inner).oneshot(request).await.unwrap();
    _ = response.into_body().collect().await;
    got.await.unwrap_or_else(|_| panic!("the backend was not asked"))
}

fn trace(fixture: &Fixture, parent: &str) -> Trace {
    let tracing = fixture.telemetry.tracing();
    Trace::new(tracing, Trail::default(), TraceContext::parse(parent.as_bytes()))
}

#[tokio::test]
async fn the_backend_gets_the_place_of_the_span_that_is_recorded() {
    let fixture = Fixture::sampling(1.0);
    let mut request = request();
    let trace = trace(&fixture, PARENT);
    request.extensions_mut().insert(trace.clone());
    let got = sent(&fixture, request, "{}").await;
    let [span] = &fixture.spans()[..] else { panic!("one span") };
    let header = got.headers["traceparent"].to_str().unwrap().to_owned();
    assert_eq!(header[3..35], PARENT[3..35]);
    assert_eq!(header[36..52], span.span_context.span_id().to_string());
    assert!(got.body.contains(&format!(r#""_meta":{{"traceparent":"{header}"}}"#)), "{}", got.body);
    let server = trace.context().unwrap().to_string();
    assert_eq!(span.parent_span_id.to_string(), server[36..52]);
    assert!(!span.parent_span_is_remote);
    assert_eq!((&*span.name, &span.span_kind), ("tools/call t", &SpanKind::Client));
}

#[tokio::test]
async fn what_is_not_recorded_goes_on_by_header_and_its_message_is_not_touched() {
    let fixture = Fixture::sampling(0.0);
    let got = sent(&fixture, request(), "{}").await;
    assert!(got.headers["traceparent"].to_str().unwrap().ends_with("-00"));
    assert_eq!(got.body, MESSAGE);
    assert!(fixture.spans().is_empty());
}

#[tokio::test]
async fn while_tracing_is_off_the_clients_trace_goes_on_as_it_came() {
    let fixture = Fixture::new(Fixture::settings(None));
    let mut request = request();
    request.extensions_mut().insert(trace(&fixture, PARENT));
    let got = sent(&fixture, request, "{}").await;
    assert_eq!(got.headers["traceparent"], PARENT);
    assert_eq!(got.body, MESSAGE);
    let got = sent(&fixture, self::request(), "{}").await;
    assert!(!got.headers.contains_key("traceparent"));
}

#[tokio::test]
async fn requests_are_measured_by_backend_and_tool() {
    let settings = Settings { legacy_attributes: false, ..Fixture::settings(Some(0.0)) };
    let fixture = Fixture::new(settings);
    sent(&fixture, request(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    sent(&fixture, request(), r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1}}"#).await;
    let labels = "gen_ai.tool.name=t mcp.method.name=tools/call vmcp.backend.name=meteo";
    assert_eq!(fixture.labels("vmcp_backend_requests"), [(labels.to_owned(), 2)]);
    assert_eq!(fixture.labels("vmcp_backend_requests_duration"), [(labels.to_owned(), 2)]);
    let failed = format!("error.type=-1 {labels}");
    assert_eq!(fixture.labels("vmcp_backend_errors"), [(failed, 1)]);
    assert_eq!(fixture.count("mcp.client.operation.duration"), 2);
}

#[tokio::test]
async fn without_an_operation_the_headers_say_what_is_asked_for() {
    let fixture = Fixture::sampling(1.0);
    let mut request = request();
    request.extensions_mut().remove::<Operation>();
    request.headers_mut().insert("mcp-method", "tools/list".parse().unwrap());
    sent(&fixture, request, "{}").await;
    assert_eq!(fixture.spans()[0].name, "tools/list");
}

#[tokio::test]
async fn why_it_failed_is_told_in_fixed_words() {
    let fixture = Fixture::sampling(1.0);
    let fail = |error: fn() -> BoxError| {
        let inner = tower::service_fn(move |_: Request<Full<Bytes>>| async move {
            Err::<Response<Body>, _>(error())
        });
        fixture.telemetry.outgoing().layer(inner).oneshot(request())
    };
    let no_credentials = || -> BoxError {
        Box::new(CredentialError {
            backend: Backend::new("meteo"),
            fault: CredentialFault::NoCaller,
            source: Some("canary".into()),
        })
    };
    fail(no_credentials).await.unwrap_err();
    fail(|| "canary".into()).await.unwrap_err();
    let spans = fixture.spans();
    let words: Vec<_> =
        spans.iter().filter_map(|span| fixture.attribute(span, "error.type")).collect();
    assert_eq!(words, ["credentials", "broken"]);
    assert!(!format!("{spans:?} {}", fixture.exported()).contains("canary"));
    assert_eq!(fixture.count("vmcp_backend_errors"), 2);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_no_error_of_the_backend() {
    let fixture = Fixture::sampling(1.0);
    let inner = tower::service_fn(|_: Request<Full<Bytes>>| {
        std::future::pending::<Result<Response<Body>, BoxError>>()
    });
    let call = fixture.telemetry.outgoing().layer(inner).oneshot(request());
    assert!(tokio::time::timeout(std::time::Duration::ZERO, call).await.is_err());
    let spans = fixture.spans();
    assert_eq!(fixture.attribute(&spans[0], "error.type").as_deref(), Some("cancelled"));
    assert_eq!(fixture.count("vmcp_backend_requests"), 1);
    assert_eq!(fixture.count("vmcp_backend_errors"), 0);
}
