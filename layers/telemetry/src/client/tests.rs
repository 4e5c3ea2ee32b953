use crate::trace_context::MetaPropagation;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use opentelemetry::trace::{SpanKind, Status};
use tower::ServiceExt;
use tower_layer::Layer;
use vmcp_core::{
    Backend, Body, BoxError, Caller, CredentialError, CredentialErrorKind, Identity, McpOperation,
    RequestContext,
};

use crate::testing::{Fixture, PARENT};

const MESSAGE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;

fn request() -> Request<Full<Bytes>> {
    let mut request = Request::post("http://backend/mcp").body(Full::from(MESSAGE)).unwrap();
    request.extensions_mut().insert(Backend::new("meteo"));
    request.extensions_mut().insert(operation());
    request
}

fn operation() -> McpOperation {
    McpOperation::new("tools/call").with_name(Bytes::from_static(b"\"t\""))
}

/// Request that the backend received.
struct ReceivedRequest {
    headers: HeaderMap,
    body: String,
}

async fn send(
    fixture: &Fixture,
    request: Request<Full<Bytes>>,
    answer: &'static str,
) -> ReceivedRequest {
    let (send, received) = tokio::sync::oneshot::channel();
    let mut send = Some(send);
    let inner = tower::service_fn(move |request: Request<Full<Bytes>>| {
        let send = send.take();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body = String::from_utf8(body.to_vec()).unwrap();
            _ = send.map(|send| send.send(ReceivedRequest { headers: parts.headers, body }));
            let response = Response::builder().header("content-type", "application/json");
            Ok::<_, BoxError>(response.body(Body::from(Bytes::from_static(answer.as_bytes())))?)
        }
    });
    let layer = fixture.recorder.client_layer().propagator(MetaPropagation);
    let response = layer.layer(inner).oneshot(request).await.unwrap();
    _ = response.into_body().collect().await;
    received.await.unwrap_or_else(|_| panic!("no request reached the backend"))
}

/// Returns the request context of a client request with the given parent, for the requests that it causes.
async fn cause(fixture: &Fixture, parent: &str) -> RequestContext {
    let inner = tower::service_fn(|request: Request<()>| async move {
        let request_context = request.extensions().get::<RequestContext>().cloned();
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(request_context.unwrap());
        Ok::<_, std::convert::Infallible>(response)
    });
    let request = Request::post("/mcp").header("traceparent", parent).body(()).unwrap();
    let response = fixture.recorder.server_layer().layer(inner).oneshot(request).await.unwrap();
    response.extensions().get::<RequestContext>().cloned().unwrap()
}

#[tokio::test]
async fn propagates_context_of_recorded_child_span() {
    let fixture = Fixture::new(true);
    let request_context = cause(&fixture, PARENT).await;
    let mut request = request();
    request.extensions_mut().insert(operation().with_client_request(request_context));
    let received = send(&fixture, request, "{}").await;
    let [server, span] = &fixture.spans()[..] else { panic!("two spans") };
    let header = received.headers["traceparent"].to_str().unwrap().to_owned();
    assert_eq!(header[3..35], PARENT[3..35]);
    assert_eq!(header, span.context.to_string());
    assert!(
        received.body.contains(&format!(r#""_meta":{{"traceparent":"{header}"}}"#)),
        "{}",
        received.body
    );
    assert_eq!(span.parent, Some(server.context.clone()));
    assert!(!span.parent_is_remote);
    assert_eq!((&*span.name, &span.kind), ("tools/call t", &SpanKind::Client));
}

#[tokio::test]
async fn unsampled_trace_propagates_by_header_only() {
    let fixture = Fixture::new(false);
    let received = send(&fixture, request(), "{}").await;
    assert!(received.headers["traceparent"].to_str().unwrap().ends_with("-00"));
    assert_eq!(received.body, MESSAGE);
    assert!(fixture.spans().is_empty());
}

#[tokio::test]
async fn propagates_client_trace_without_tracing() {
    let fixture = Fixture::new(None);
    let mut request = request();
    // A proxy that forwards the request leaves the request context in its extensions.
    request.extensions_mut().insert(cause(&fixture, PARENT).await);
    let received = send(&fixture, request, "{}").await;
    assert_eq!(received.headers["traceparent"], PARENT);
    assert_eq!(received.body, MESSAGE);
    let received = send(&fixture, self::request(), "{}").await;
    assert!(!received.headers.contains_key("traceparent"));
}

#[tokio::test]
async fn measures_requests_by_backend_and_tool() {
    let fixture = Fixture::with(false, false);
    send(&fixture, request(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    send(&fixture, request(), r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1}}"#).await;
    let labels = "gen_ai.tool.name=t mcp.method.name=tools/call vmcp.backend.name=meteo";
    assert_eq!(fixture.labels("vmcp_backend_requests"), [(labels.to_owned(), 2)]);
    assert_eq!(fixture.labels("vmcp_backend_requests_duration"), [(labels.to_owned(), 2)]);
    let failed = format!("error.type=-1 {labels}");
    assert_eq!(fixture.labels("vmcp_backend_errors"), [(failed, 1)]);
    assert_eq!(fixture.count("mcp.client.operation.duration"), 2);
}

#[tokio::test]
async fn reads_headers_without_operation() {
    let fixture = Fixture::new(true);
    let mut request = request();
    request.extensions_mut().remove::<McpOperation>();
    request.headers_mut().insert("mcp-method", "tools/list".parse().unwrap());
    send(&fixture, request, "{}").await;
    assert_eq!(fixture.spans()[0].name, "tools/list");
}

#[tokio::test]
async fn error_type_is_a_fixed_word() {
    let fixture = Fixture::new(true);
    let fail = |error: fn() -> BoxError| {
        let inner = tower::service_fn(move |_: Request<Full<Bytes>>| async move {
            Err::<Response<Body>, _>(error())
        });
        fixture.recorder.client_layer().layer(inner).oneshot(request())
    };
    let no_credentials = || -> BoxError {
        Box::new(CredentialError {
            backend: Backend::new("meteo"),
            kind: CredentialErrorKind::NoCaller,
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
async fn cancelled_call_is_no_backend_error() {
    let fixture = Fixture::new(true);
    let inner = tower::service_fn(|_: Request<Full<Bytes>>| {
        std::future::pending::<Result<Response<Body>, BoxError>>()
    });
    let call = fixture.recorder.client_layer().layer(inner).oneshot(request());
    assert!(tokio::time::timeout(std::time::Duration::ZERO, call).await.is_err());
    let spans = fixture.spans();
    assert_eq!(fixture.attribute(&spans[0], "error.type").as_deref(), Some("cancelled"));
    assert_eq!(fixture.count("vmcp_backend_requests"), 1);
    assert_eq!(fixture.count("vmcp_backend_errors"), 0);
}

#[tokio::test]
async fn expected_rejections_are_no_backend_errors() {
    const UNKNOWN: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"?"}}"#;
    let user = || Caller::User(Identity::new("https://a", "1"));
    let errors_after = |method: Method, caller: Caller, status: u16, body: &'static str| {
        let fixture = Fixture::new(true);
        let mut request = request();
        *request.method_mut() = method;
        request.extensions_mut().insert(caller);
        let inner = tower::service_fn(move |_: Request<Full<Bytes>>| async move {
            let response =
                Response::builder().status(status).header("content-type", "application/json");
            Ok::<_, BoxError>(response.body(Body::from(Bytes::from_static(body.as_bytes())))?)
        });
        async move {
            let response =
                fixture.recorder.client_layer().layer(inner).oneshot(request).await.unwrap();
            _ = response.into_body().collect().await;
            assert_eq!(fixture.count("vmcp_backend_requests"), 1);
            let errors = fixture.count("vmcp_backend_errors");
            assert_eq!(fixture.spans()[0].status == Status::Unset, status >= 400 || errors == 0);
            errors
        }
    };
    let (get, delete, post) = (Method::GET, Method::DELETE, Method::POST);
    for expected in [
        errors_after(post.clone(), Caller::Gateway, 200, UNKNOWN),
        errors_after(post.clone(), Caller::Gateway, 400, UNKNOWN),
        errors_after(post.clone(), Caller::Gateway, 401, ""),
        errors_after(get.clone(), user(), 405, ""),
        errors_after(delete, user(), 405, ""),
    ] {
        assert_eq!(expected.await, 0);
    }
    for error in [
        errors_after(post.clone(), user(), 200, UNKNOWN),
        errors_after(post.clone(), user(), 401, ""),
        errors_after(post.clone(), user(), 405, ""),
        errors_after(get, user(), 404, ""),
        errors_after(post, Caller::Gateway, 429, ""),
    ] {
        assert_eq!(error.await, 1);
    }
    let fixture = Fixture::new(true);
    let mut request = request();
    request.extensions_mut().insert(Caller::Gateway);
    let inner = tower::service_fn(|_: Request<Full<Bytes>>| async {
        let response = Response::builder().status(503);
        Ok::<_, BoxError>(response.body(Body::empty())?)
    });
    fixture.recorder.client_layer().layer(inner).oneshot(request).await.unwrap();
    assert_eq!(fixture.count("vmcp_backend_errors"), 1);
}
