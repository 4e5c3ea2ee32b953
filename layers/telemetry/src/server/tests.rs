use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use opentelemetry::trace::{SpanKind, Status};
use tower::ServiceExt;
use tower_layer::Layer;
use tower_test::mock;
use vmcp_core::{Backend, Body, Generation, Identity, McpRequest, Rejection, RequestContext};
use vmcp_wire::scan;

use crate::Route;
use crate::testing::{Fixture, PARENT};
use crate::trace_link::TraceLink;

const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"weather","arguments":{"token":"canary"}}}"#;

fn message(text: &str) -> McpRequest {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    let envelope = scan(&bytes).unwrap();
    McpRequest { bytes, envelope, generation: Generation::Stateful }
}

fn json(body: &str) -> Response<Body> {
    let response = Response::builder().header("content-type", "application/json");
    response.body(Body::from(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
}

/// Sends a request to a service that records the given facts and responds.
async fn send(
    fixture: &Fixture,
    request: Request<()>,
    text: &str,
    backend: Option<&str>,
    response: Response<Body>,
) {
    let (text, backend) = (text.to_owned(), backend.map(Backend::new));
    let mut response = Some(response);
    let inner = tower::service_fn(move |mut request: Request<()>| {
        let request_context = RequestContext::of(request.extensions_mut());
        request_context.record_message(&message(&text));
        request_context.record_identity(&Identity::new("issuer", "canary"));
        if let Some(backend) = &backend {
            request_context.record_backend(backend);
        }
        std::future::ready(Ok::<_, std::convert::Infallible>(response.take().unwrap()))
    });
    let response = fixture.recorder.server_layer().layer(inner).oneshot(request).await.unwrap();
    _ = response.into_body().collect().await;
}

fn post() -> Request<()> {
    Request::post("/mcp?token=canary")
        .header("host", "gateway")
        .header("user-agent", "tester")
        .header("mcp-session-id", "canary")
        .header("mcp-protocol-version", "2025-11-25")
        .body(())
        .unwrap()
}

const RESULT: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]}}"#;

#[tokio::test]
async fn records_span_and_metrics_of_call() {
    let fixture = Fixture::new(true);
    send(&fixture, post(), CALL, Some("meteo"), json(RESULT)).await;
    let [span] = &fixture.spans()[..] else { panic!("one span") };
    assert_eq!((&*span.name, &span.kind), ("tools/call weather", &SpanKind::Server));
    assert_eq!(span.status, Status::Ok);
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "weather"),
        ("gen_ai.operation.name", "execute_tool"),
        ("jsonrpc.request.id", "7"),
        ("mcp.protocol.version", "2025-11-25"),
        ("vmcp.backend.name", "meteo"),
        ("url.path", "/mcp"),
        ("server.address", "gateway"),
        ("user_agent.original", "tester"),
        ("http.response.status_code", "200"),
        ("auth.authenticated", "true"),
    ] {
        assert_eq!(fixture.attribute(span, key).as_deref(), Some(value), "{key}");
    }
    let labels = fixture.labels("mcp.server.operation.duration");
    let expected = "gen_ai.operation.name=execute_tool gen_ai.tool.name=weather \
         jsonrpc.protocol.version=2.0 mcp.method.name=tools/call mcp.protocol.version=2025-11-25 \
         network.protocol.name=http network.protocol.version=1.1 network.transport=tcp";
    assert_eq!(labels, [(expected.to_owned(), 1)]);
    let calls = fixture.labels("vmcp_mcp_tool_calls");
    assert_eq!(calls, [("server=gateway status=success tool=weather".to_owned(), 1)]);
}

#[tokio::test]
async fn span_omits_arguments_query_and_session_id() {
    let fixture = Fixture::new(true);
    send(&fixture, post(), CALL, None, json(RESULT)).await;
    let everything = format!("{:?} {:?}", fixture.spans(), fixture.exported());
    assert!(!everything.contains("canary"), "{everything}");
}

#[tokio::test]
async fn writes_legacy_attributes_only_if_configured() {
    for legacy in [true, false] {
        let fixture = Fixture::with(true, legacy);
        send(&fixture, post(), CALL, None, json(RESULT)).await;
        let [span] = &fixture.spans()[..] else { panic!("one span") };
        for key in
            ["mcp.method", "mcp.tool.name", "http.status_code", "http.duration_ms", "rpc.system"]
        {
            assert_eq!(fixture.attribute(span, key).is_some(), legacy, "{key}");
        }
        assert!(fixture.attribute(span, "mcp.method.name").is_some());
    }
}

#[tokio::test]
async fn parent_in_message_precedes_header() {
    let fixture = Fixture::new(false);
    let other = "00-11111111111111111111111111111111-2222222222222222-00";
    let mut request = post();
    request.headers_mut().insert("traceparent", other.parse().unwrap());
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{"traceparent":"{PARENT}"}}}}}}"#
    );
    send(&fixture, request, &text, None, json(RESULT)).await;
    // The parent is sampled, which takes precedence over the ratio.
    let [span] = &fixture.spans()[..] else { panic!("one span") };
    assert_eq!(span.parent.as_ref().map(ToString::to_string).as_deref(), Some(PARENT));
    assert_eq!(span.context.to_string()[3..35], PARENT[3..35]);
    assert!(span.parent_is_remote);
}

#[tokio::test]
async fn follows_sampling_decision_of_parent() {
    let fixture = Fixture::new(true);
    let mut request = post();
    let unsampled = format!("{}00", &PARENT[..53]);
    request.headers_mut().insert("traceparent", unsampled.parse().unwrap());
    send(&fixture, request, CALL, None, json(RESULT)).await;
    assert!(fixture.spans().is_empty());
    assert_eq!(fixture.count("vmcp_mcp_requests"), 1);
}

#[tokio::test]
async fn unknown_names_become_no_labels() {
    let fixture = Fixture::new(true);
    for number in 0..3000 {
        let text = CALL.replace("weather", &format!("made-up-{number}"));
        let rejection = Rejection::not_found("tool", "x").for_stateful_client();
        send(&fixture, post(), &text, None, rejection.into_response(None)).await;
    }
    assert_eq!(fixture.labels("mcp.server.operation.duration").len(), 1);
    assert!(fixture.spans().iter().all(|span| span.name == "tools/call"));
    assert_eq!(fixture.attribute(&fixture.spans()[0], "error.type").as_deref(), Some("-32602"));
}

#[tokio::test]
async fn error_type_is_json_rpc_code() {
    let fixture = Fixture::new(true);
    let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32050,"message":"no"}}"#;
    send(&fixture, post(), CALL, Some("b"), json(error)).await;
    let failed = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"isError":true}}"#;
    send(&fixture, post(), CALL, Some("b"), json(failed)).await;
    let spans = fixture.spans();
    let faults: Vec<_> =
        spans.iter().filter_map(|span| fixture.attribute(span, "error.type")).collect();
    assert_eq!(faults, ["-32050", "tool_error"]);
    assert!(spans.iter().all(|span| matches!(span.status, Status::Error { .. })));
    let calls = fixture.labels("vmcp_mcp_tool_calls");
    assert_eq!(calls, [("server=gateway status=error tool=weather".to_owned(), 2)]);
}

#[tokio::test(start_paused = true)]
async fn measures_stream_until_its_end() {
    let fixture = Fixture::new(true);
    let (inner, mut handle) = mock::pair::<Request<()>, Response<Body>>();
    let response = fixture.recorder.server_layer().layer(inner).oneshot(post());
    let backend = async {
        let (mut request, send) = handle.next_request().await.unwrap();
        RequestContext::of(request.extensions_mut()).record_message(&message(CALL));
        let slow = async_stream(Duration::from_secs(3));
        send.send_response(Response::new(Body::wrap(slow)));
    };
    let (response, ()) = tokio::join!(response, backend);
    let body = response.unwrap().into_body();
    assert_eq!(fixture.gauge("vmcp_mcp_active_connections"), 1);
    assert!(fixture.spans().is_empty());
    body.collect().await.unwrap();
    assert_eq!(fixture.gauge("vmcp_mcp_active_connections"), 0);
    let sum = fixture.sum("mcp.server.operation.duration");
    assert!((sum - 3.0).abs() < 0.1, "{sum}");
}

/// Returns a body that ends after `wait`.
fn async_stream(wait: Duration) -> impl http_body::Body<Data = Bytes, Error = vmcp_core::BoxError> {
    struct Slow(std::pin::Pin<Box<tokio::time::Sleep>>);
    impl http_body::Body for Slow {
        type Data = Bytes;
        type Error = vmcp_core::BoxError;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, vmcp_core::BoxError>>> {
            self.0.as_mut().poll(cx).map(|()| None)
        }
    }
    Slow(Box::pin(tokio::time::sleep(wait)))
}

#[tokio::test]
async fn records_dropped_call_as_cancelled() {
    let fixture = Fixture::new(true);
    let (inner, mut handle) = mock::pair::<Request<()>, Response<Body>>();
    handle.allow(1);
    {
        let mut call = pin!(fixture.recorder.server_layer().layer(inner).oneshot(post()));
        assert!(poll_once(call.as_mut()).is_none());
        let (mut request, _send) = handle.next_request().await.unwrap();
        RequestContext::of(request.extensions_mut()).record_message(&message(CALL));
    }
    let [span] = &fixture.spans()[..] else { panic!("one span") };
    assert_eq!(fixture.attribute(span, "error.type").as_deref(), Some("cancelled"));
    assert_eq!(fixture.gauge("vmcp_mcp_active_connections"), 0);
}

fn poll_once<F: Future>(call: std::pin::Pin<&mut F>) -> Option<F::Output> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match call.poll(&mut cx) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn forwards_inner_readiness() {
    let fixture = Fixture::new(true);
    let (inner, mut handle) = mock::pair::<Request<()>, Response<Body>>();
    let mut service = fixture.recorder.server_layer().layer(inner);
    handle.allow(0);
    assert!(poll_once(pin!(service.ready())).is_none());
    handle.allow(1);
    assert!(poll_once(pin!(service.ready())).is_some());
}

#[tokio::test]
async fn keeps_client_trace_without_tracing() {
    let fixture = Fixture::new(None);
    let inner = tower::service_fn(|request: Request<()>| async move {
        let request_context = request.extensions().get::<RequestContext>().unwrap();
        let position = request_context.extension::<TraceLink>().unwrap().position(request_context);
        let parent = position.context.as_ref().map(ToString::to_string);
        Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from(
            parent.unwrap_or_default(),
        )))
    });
    let layer = fixture.recorder.server_layer();
    let mut request = post();
    request.headers_mut().insert("traceparent", PARENT.parse().unwrap());
    let response = layer.layer(inner).oneshot(request).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), PARENT);
    assert!(fixture.spans().is_empty());
}

#[tokio::test]
async fn counts_other_requests_by_http_method() {
    let fixture = Fixture::new(true);
    let inner = tower::service_fn(|_: Request<()>| async {
        let refused = Response::builder().status(StatusCode::METHOD_NOT_ALLOWED);
        Ok::<_, std::convert::Infallible>(refused.body(Body::empty()).unwrap())
    });
    let request = Request::builder().method(Method::PUT).uri("/mcp").body(()).unwrap();
    fixture.recorder.server_layer().layer(inner).oneshot(request).await.unwrap();
    let labels = fixture.labels("vmcp_mcp_requests");
    let expected = "mcp_method= mcp_resource_id= method=_OTHER server=gateway status=error \
         status_code=405 transport=streamable-http";
    assert_eq!(labels, [(expected.to_owned(), 1)]);
    assert_eq!(fixture.count("mcp.server.operation.duration"), 0);
    assert_eq!(fixture.spans()[0].status, Status::Unset);
}

/// Sends a request to an endpoint that does not speak MCP and returns its route.
async fn endpoint(fixture: &Fixture, request: Request<()>, route: Option<&str>, status: u16) {
    let route = route.map(|route| Route(route.into()));
    let inner = tower::service_fn(move |_: Request<()>| {
        let mut response = Response::new(Body::from(Bytes::from_static(b"canary")));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        if let Some(route) = &route {
            response.extensions_mut().insert(route.clone());
        }
        std::future::ready(Ok::<_, std::convert::Infallible>(response))
    });
    let response = fixture.recorder.endpoint_layer().layer(inner).oneshot(request).await.unwrap();
    _ = response.into_body().collect().await;
}

#[tokio::test]
async fn endpoint_span_has_route_but_no_path() {
    let fixture = Fixture::new(true);
    let get = |path: &str| {
        let request = Request::get(path).header("host", "gateway").header("traceparent", PARENT);
        request.body(()).unwrap()
    };
    endpoint(&fixture, get("/users/canary?code=canary"), Some("/users/{id}"), 200).await;
    endpoint(&fixture, get("/canary?state=canary"), None, 404).await;
    endpoint(&fixture, get("/users/canary"), Some("/users/{id}"), 503).await;
    let spans = fixture.spans();
    let names: Vec<_> = spans.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["GET /users/{id}", "GET", "GET /users/{id}"]);
    assert_eq!(fixture.attribute(&spans[0], "http.route").as_deref(), Some("/users/{id}"));
    assert_eq!(fixture.attribute(&spans[1], "http.route"), None);
    assert_eq!(fixture.attribute(&spans[0], "rpc.service"), None);
    assert_eq!(spans[0].parent.as_ref().map(ToString::to_string).as_deref(), Some(PARENT));
    assert_eq!(
        spans.iter().map(|span| span.status.clone()).collect::<Vec<_>>(),
        [Status::Ok, Status::Unset, Status::error("")]
    );
    let common = "http.request.method=GET";
    let labels = fixture.labels("http.server.request.duration");
    let of = |more: &str| (format!("{more} network.protocol.version=1.1 url.scheme=http"), 1);
    assert_eq!(
        labels,
        [
            of(&format!(
                "error.type=503 {common} http.response.status_code=503 http.route=/users/{{id}}"
            )),
            of(&format!("{common} http.response.status_code=200 http.route=/users/{{id}}")),
            of(&format!("{common} http.response.status_code=404")),
        ]
    );
    // MCP metrics are unaffected.
    assert_eq!(fixture.count("vmcp_mcp_requests"), 0);
    assert_eq!(fixture.gauge("vmcp_mcp_active_connections"), 0);
    let everything = format!("{spans:?} {}", fixture.exported());
    assert!(!everything.contains("canary"), "{everything}");
}
