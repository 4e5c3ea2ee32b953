//! Tests of the layer with enforcing and delegating services.

mod delegation;
mod filtering;
mod gating;

use std::pin::pin;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::{Service, ServiceExt, service_fn};
use tower_layer::Layer;
use vmcp_core::{Body, Generation, Identity, Item, McpRequest};

use super::*;
use crate::Action;

/// Status and body of a response.
pub(super) type StatusAndBody = (u16, String);

/// Hides names with `secret`, denies the argument `{"bad":1}`, and requires the scope `admin` for names with `admin`.
pub(super) fn policy(_: &Identity, item: &Item<'_>, action: Action<'_>) -> Decision {
    match action {
        _ if item.name.contains("secret") => Decision::Hide,
        Action::Call(Some(br#"{"bad":1}"#)) => Decision::Deny,
        Action::Call(_) if item.name.contains("admin") => {
            Decision::InsufficientScope(vec!["admin".into()])
        }
        _ => Decision::Allow,
    }
}

pub(super) fn layer() -> AuthorizationLayer<impl Policy> {
    AuthorizationLayer::new(policy)
}

pub(super) fn message(json: &str, generation: Generation) -> Request<()> {
    let bytes = Bytes::copy_from_slice(json.as_bytes());
    let envelope = vmcp_wire::scan(&bytes).unwrap();
    let mut request = Request::post("/mcp").body(()).unwrap();
    request.extensions_mut().insert(McpRequest { bytes, envelope, generation });
    request
}

pub(super) fn request(method: &str, params: &str) -> Request<()> {
    let json = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#);
    message(&json, Generation::Stateless)
}

/// Sends a request through `layer` to a service that returns `response`.
pub(super) async fn send<P: Policy>(
    layer: &AuthorizationLayer<P>,
    request: Request<()>,
    response: impl Fn() -> Response<Body> + Clone + Send + 'static,
) -> StatusAndBody {
    let service = layer.layer(service_fn(move |_: Request<()>| {
        let response = response();
        async { Ok::<_, std::io::Error>(response) }
    }));
    read(service.oneshot(request).await.unwrap()).await
}

pub(super) async fn read(response: Response<Body>) -> StatusAndBody {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

pub(super) fn json(body: &str) -> Response<Body> {
    content("application/json", body)
}

pub(super) fn content(kind: &str, body: &str) -> Response<Body> {
    // Two chunks, as a network might deliver the body.
    let (first, second) = body.as_bytes().split_at(body.len() / 2);
    let pieces = [Bytes::copy_from_slice(first), Bytes::copy_from_slice(second), Bytes::new()];
    Response::builder().header("content-type", kind).body(Body::chain(pieces)).unwrap()
}

/// Response of the inner service.
pub(super) fn inner_response() -> Response<Body> {
    json("passed")
}

pub(super) const INNER_RESPONSE: (u16, &str) = (200, "passed");

#[tokio::test]
async fn calls_instance_that_was_ready() {
    let (service, mut handle) = tower_test::mock::pair::<Request<()>, Response<Body>>();
    let mut service = layer().layer(service);
    handle.allow(0);
    let mut ready =
        pin!(std::future::poll_fn(|cx| { Service::<Request<()>>::poll_ready(&mut service, cx) }));
    assert!(poll_once(ready.as_mut()).is_none());
    handle.allow(1);
    ready.await.unwrap();
    let listed = service.call(request("tools/list", "{}"));
    let serve = async {
        let (_, respond) = handle.next_request().await.unwrap();
        respond.send_response(json(r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}"#));
    };
    let (answer, ()) = join(listed, serve).await;
    assert_eq!(answer.unwrap().status(), 200);
}

/// Returns the output of a future that is ready immediately.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut cx) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    tokio::join!(a, b)
}

/// A body type of another framework.
#[tokio::test]
async fn accepts_any_body_made_of_bytes() {
    let service = service_fn(|_: Request<()>| async {
        Ok::<_, std::io::Error>(Response::new(Full::new(Bytes::from_static(b"x"))))
    });
    let answer = layer().layer(service).oneshot(request("ping", "{}")).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "x");
}

#[tokio::test]
async fn logs_a_missing_decoder() {
    let log = vmcp_test_support::LogCapture::current_thread();
    let inner = service_fn(|_: Request<()>| {
        std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(Body::empty())))
    });
    let request = Request::post("/mcp").body(()).unwrap();
    let response = layer().layer(inner).oneshot(request).await.unwrap();
    assert_eq!(response.status(), 500);
    assert!(log.text().contains("put vmcp_decode::DecodeLayer"), "{}", log.text());
}
