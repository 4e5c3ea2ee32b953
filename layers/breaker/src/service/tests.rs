use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::iter;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body::{Body as _, Frame};
use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt, Full, StreamBody};
use tokio::time::advance;
use tower::{Layer, ServiceExt, service_fn};
use vmcp_core::{Backend, Body, CredentialError, CredentialErrorKind};

use super::*;
use crate::{CircuitBreakerLayer, CircuitSettings, CircuitState};

const RESULT: &[u8] = br#"data: {"jsonrpc":"2.0","id":1,"result":{}}

"#;
const PROGRESS: &[u8] = br#"data: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}

"#;

fn breaker() -> CircuitHandle {
    CircuitHandle::new(Backend::new("b"), CircuitSettings::new(2, Duration::from_mins(1)).unwrap())
}

fn post() -> Request<()> {
    Request::post("/").body(()).unwrap()
}

fn response(status: u16, media: &'static str, body: Body) -> Response<Body> {
    Response::builder().status(status).header(CONTENT_TYPE, media).body(body).unwrap()
}

fn channel_response(media: &'static str) -> (Sender<Bytes, io::Error>, Response<Body>) {
    let (sender, body) = Channel::new(4);
    (sender, response(200, media, Body::wrap(body)))
}

/// Sends one request to a service that returns `response`.
async fn call(
    breaker: &CircuitHandle,
    request: Request<()>,
    response: Result<Response<Body>, BoxError>,
) -> Result<Response<ResponseBody<Body, crate::DefaultClassifier>>, BoxError> {
    let response = Arc::new(Mutex::new(Some(response)));
    let inner = service_fn(move |_: Request<()>| {
        let response = response.lock().unwrap().take().unwrap();
        async { response }
    });
    CircuitBreakerLayer::new(breaker.clone()).layer(inner).oneshot(request).await
}

/// Returns the failures after the given result, starting with one.
async fn failures_after(response: Result<Response<Body>, BoxError>) -> u32 {
    let breaker = breaker();
    breaker.record_probe(Outcome::Failure);
    if let Ok(response) = call(&breaker, post(), response).await {
        _ = response.into_body().collect().await;
    }
    breaker.failures()
}

#[tokio::test(start_paused = true)]
async fn classifies_statuses() {
    for (status, failures) in [
        (200, 0),
        (202, 1),
        (404, 0),
        (500, 0),
        (401, 1),
        (403, 1),
        (429, 1),
        (502, 2),
        (503, 2),
        (504, 2),
    ] {
        let body = || Body::from(Bytes::from_static(b"{}"));
        let response = || response(status, "application/json", body());
        assert_eq!(failures_after(Ok(response())).await, failures, "{status}");
    }
}

#[derive(Debug, thiserror::Error)]
#[error("outer")]
struct Outer(#[source] CredentialError);

#[tokio::test(start_paused = true)]
async fn credential_errors_are_neutral_other_errors_failures() {
    assert_eq!(failures_after(Err(Box::new(io::Error::other("refused")))).await, 2);
    let kind = CredentialErrorKind::Unavailable { reason: "it is down" };
    let credentials = CredentialError { backend: Backend::new("b"), kind, source: None };
    assert_eq!(failures_after(Err(Box::new(credentials))).await, 1);
    let kind = CredentialErrorKind::NoCaller;
    let credentials = CredentialError { backend: Backend::new("b"), kind, source: None };
    assert_eq!(failures_after(Err(Box::new(Outer(credentials)))).await, 1);
}

#[tokio::test(start_paused = true)]
async fn json_rpc_error_is_success() {
    let error = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}"#;
    let body = Body::from(Bytes::from_static(error));
    assert_eq!(failures_after(Ok(response(200, "application/json", body))).await, 0);
    let mut stream = b"data: ".to_vec();
    stream.extend_from_slice(error);
    stream.extend_from_slice(b"\n\n");
    let body = Body::from(Bytes::from(stream));
    assert_eq!(failures_after(Ok(response(200, "text/event-stream", body))).await, 0);
}

#[tokio::test(start_paused = true)]
async fn open_circuit_rejects_without_calling_inner_service() {
    let breaker = breaker();
    breaker.record_probe(Outcome::Failure);
    breaker.record_probe(Outcome::Failure);
    let inner = service_fn(|_: Request<()>| async {
        Err::<Response<Body>, BoxError>("inner service called".into())
    });
    let service = CircuitBreakerLayer::new(breaker.clone()).layer(inner);
    let error = service.clone().oneshot(post()).await.unwrap_err();
    let open = error.downcast_ref::<CircuitOpen>().unwrap();
    assert_eq!((open.backend.name(), open.retry_in.as_secs()), ("b", 60));
    advance(Duration::from_mins(1)).await;
    assert!(service.oneshot(post()).await.unwrap_err().downcast_ref::<CircuitOpen>().is_none());
    assert_eq!(breaker.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_get_one_trial() {
    let breaker = breaker();
    breaker.record_probe(Outcome::Failure);
    breaker.record_probe(Outcome::Failure);
    advance(Duration::from_mins(1)).await;
    let inner = service_fn(|_: Request<()>| async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok::<_, Infallible>(response(
            200,
            "application/json",
            Body::from(Bytes::from_static(b"{}")),
        ))
    });
    let layer = CircuitBreakerLayer::new(breaker.clone());
    let calls: Vec<_> = (0..50).map(|_| tokio::spawn(layer.layer(inner).oneshot(post()))).collect();
    let mut passed = 0;
    for call in calls {
        if let Ok(response) = call.await.unwrap() {
            passed += 1;
            response.into_body().collect().await.unwrap();
        }
    }
    assert_eq!((passed, breaker.state()), (1, CircuitState::Closed));
}

#[tokio::test(start_paused = true)]
async fn cancelled_call_is_neutral() {
    let breaker = breaker();
    breaker.record_probe(Outcome::Failure);
    breaker.record_probe(Outcome::Failure);
    advance(Duration::from_mins(1)).await;
    let never =
        service_fn(|_: Request<()>| std::future::pending::<Result<Response<Body>, Infallible>>());
    let trial = CircuitBreakerLayer::new(breaker.clone()).layer(never).oneshot(post());
    assert!(tokio::time::timeout(Duration::from_secs(1), trial).await.is_err());
    assert_eq!((breaker.state(), breaker.failures()), (CircuitState::HalfOpen, 2));
    let (mut sender, response) = channel_response("application/json");
    let response = call(&breaker, post(), Ok(response)).await.unwrap();
    sender.send_data(Bytes::from_static(b"{")).await.unwrap();
    let mut body = response.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    drop(body);
    assert_eq!(breaker.state(), CircuitState::HalfOpen);
    breaker.record_probe(Outcome::Success);
    assert_eq!(breaker.state(), CircuitState::Closed);
}

/// Returns the failures after a stream of `pieces` that ends or is aborted, starting with one.
async fn failures_after_stream(
    request: Request<()>,
    pieces: &[&'static [u8]],
    is_aborted: bool,
) -> u32 {
    let breaker = breaker();
    breaker.record_probe(Outcome::Failure);
    let (mut sender, response) = channel_response("text/event-stream");
    let response = call(&breaker, request, Ok(response)).await.unwrap();
    for piece in pieces {
        sender.send_data(Bytes::from_static(piece)).await.unwrap();
    }
    if is_aborted {
        sender.abort(io::Error::other("reset"));
    } else {
        drop(sender);
    }
    assert_eq!(response.into_body().collect().await.is_err(), is_aborted);
    breaker.failures()
}

#[tokio::test(start_paused = true)]
async fn stream_without_response_is_failure() {
    assert_eq!(failures_after_stream(post(), &[PROGRESS], true).await, 2);
    assert_eq!(failures_after_stream(post(), &[PROGRESS], false).await, 2);
    let (start, end) = RESULT.split_at(20);
    assert_eq!(failures_after_stream(post(), &[PROGRESS, start], false).await, 2);
    assert_eq!(failures_after_stream(post(), &[PROGRESS, start, end], true).await, 0);
    assert_eq!(failures_after_stream(post(), &[PROGRESS, RESULT], false).await, 0);
    let question = b"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n";
    assert_eq!(failures_after_stream(post(), &[question], false).await, 2);
}

#[tokio::test(start_paused = true)]
async fn resumable_stream_may_end_without_response() {
    assert_eq!(failures_after_stream(post(), &[b"id: 7\ndata:\n\n"], false).await, 1);
    assert_eq!(failures_after_stream(post(), &[b"id: 7\ndata:\n\n"], true).await, 2);
}

#[tokio::test(start_paused = true)]
async fn end_of_notification_stream_is_neutral() {
    let get = || Request::get("/").body(()).unwrap();
    assert_eq!(failures_after_stream(get(), &[PROGRESS], true).await, 1);
    assert_eq!(failures_after_stream(get(), &[PROGRESS], false).await, 1);
    assert_eq!(failures_after_stream(get(), &[], false).await, 1);
    // The response of a resumed request.
    assert_eq!(failures_after_stream(get(), &[PROGRESS, RESULT], true).await, 0);
}

#[tokio::test(start_paused = true)]
async fn only_requests_have_outcomes() {
    let request_with = |method| {
        let mut request = post();
        request.extensions_mut().insert(vmcp_core::McpOperation::new(method));
        request
    };
    let outcome = |kind: usize| match kind {
        0 => Err("refused".into()),
        kind => Ok(response([200, 202, 503][kind - 1], "text/plain", Body::empty())),
    };
    for (request, counts) in [
        (request_with("tools/call"), [2, 0, 1, 2]),
        (request_with("notifications/cancelled"), [1; 4]),
        (request_with(""), [1; 4]),
        (Request::delete("/").body(()).unwrap(), [1; 4]),
        (Request::get("/").body(()).unwrap(), [1; 4]),
    ] {
        for (kind, expected) in counts.into_iter().enumerate() {
            let breaker = breaker();
            breaker.record_probe(Outcome::Failure);
            if let Ok(response) = call(&breaker, request.clone(), outcome(kind)).await {
                _ = response.into_body().collect().await;
            }
            assert_eq!(breaker.failures(), expected, "{request:?} {kind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn notification_trial_is_neutral() {
    let breaker = breaker();
    breaker.record_probe(Outcome::Failure);
    breaker.record_probe(Outcome::Failure);
    advance(Duration::from_mins(1)).await;
    let accepted = || Ok(response(202, "text/plain", Body::empty()));
    call(&breaker, post(), accepted()).await.unwrap();
    assert_eq!(breaker.state(), CircuitState::HalfOpen);
    call(&breaker, post(), Ok(response(200, "text/plain", Body::empty()))).await.unwrap();
    assert_eq!(breaker.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn truncated_json_body_is_failure() {
    let (mut sender, response) = channel_response("application/json");
    sender.send_data(Bytes::from_static(b"{")).await.unwrap();
    sender.abort(io::Error::other("reset"));
    assert_eq!(failures_after(Ok(response)).await, 2);
}

#[tokio::test(start_paused = true)]
async fn opening_stream_closes_half_open_circuit() {
    let breaker = breaker();
    breaker.record_probe(Outcome::Failure);
    breaker.record_probe(Outcome::Failure);
    advance(Duration::from_mins(1)).await;
    let (sender, response) = channel_response("text/event-stream");
    let response = call(&breaker, post(), Ok(response)).await.unwrap();
    assert_eq!((breaker.state(), breaker.failures()), (CircuitState::Closed, 0));
    drop(sender);
    response.into_body().collect().await.unwrap();
    assert_eq!((breaker.state(), breaker.failures()), (CircuitState::Closed, 1));
}

#[tokio::test(start_paused = true)]
async fn closure_classifies_results() {
    let breaker = breaker();
    let layer =
        CircuitBreakerLayer::new(breaker.clone()).classify(|result: CallResult<'_>| match result {
            CallResult::Status(StatusCode::NOT_FOUND) => Outcome::Failure,
            CallResult::Status(_) => Outcome::Success,
            CallResult::Error(_) => Outcome::Neutral,
        });
    let inner = service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(response(404, "text/plain", Body::empty()))
    });
    for _ in 0..2 {
        layer.layer(inner).oneshot(post()).await.unwrap();
    }
    assert_eq!(breaker.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn forwards_frames_and_size_hint() {
    let breaker = breaker();
    let inner = service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"abc"))))
    });
    let layer = CircuitBreakerLayer::new(breaker);
    let mut response = layer.layer(inner).oneshot(post()).await.unwrap();
    assert_eq!(response.body().size_hint().exact(), Some(3));
    assert!(!response.body().is_end_stream());
    assert!(format!("{:?}", response.body()).contains("is_recording: true"));
    let frame = response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "abc");
    assert!(response.body().is_end_stream());
    assert!(format!("{:?}", response.body()).contains("is_recording: false"));

    let inner = service_fn(|_: Request<()>| async {
        let trailers = http::HeaderMap::from_iter([(CONTENT_TYPE, "x".parse().unwrap())]);
        let frames = [Frame::data(Bytes::from_static(b"a")), Frame::trailers(trailers)];
        let frames = frames.map(Ok::<_, Infallible>);
        Ok::<_, Infallible>(Response::new(StreamBody::new(iter(frames))))
    });
    let response = layer.layer(inner).oneshot(post()).await.unwrap();
    let collected = response.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()[CONTENT_TYPE], "x");
    assert_eq!(collected.to_bytes(), "a");
}

#[tokio::test]
async fn forwards_inner_readiness() {
    let breaker = breaker();
    breaker.record_probe(Outcome::Failure);
    breaker.record_probe(Outcome::Failure);
    let (mut service, mut handle) = tower_test::mock::spawn_layer::<Request<()>, Response<Body>, _>(
        CircuitBreakerLayer::new(breaker),
    );
    handle.allow(0);
    assert!(service.poll_ready().is_pending());
    handle.allow(1);
    // The circuit is open; `call` rejects the request, `poll_ready` does not.
    assert!(service.poll_ready().is_ready());
    assert!(service.call(post()).await.unwrap_err().is::<CircuitOpen>());
}

#[tokio::test(start_paused = true)]
async fn response_body_can_be_boxed() {
    let inner = service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(response(200, "text/plain", Body::from(Bytes::from_static(b"abc"))))
    });
    let guarded = CircuitBreakerLayer::new(breaker()).layer(inner);
    let stack = tower::util::BoxCloneSyncService::new(
        guarded.map_response(|response| response.map(Body::wrap)),
    );
    let body = stack.oneshot(post()).await.unwrap().into_body();
    assert_eq!(body.collect().await.unwrap().to_bytes(), "abc");
}

#[tokio::test(start_paused = true)]
async fn list_success_keeps_failures_of_calls() {
    let breaker = breaker();
    let request = |method| {
        let mut request = post();
        request.extensions_mut().insert(McpOperation::new(method));
        request
    };
    let ok = || Ok(response(200, "application/json", Body::empty()));
    let unavailable = || Ok(response(503, "application/json", Body::empty()));
    call(&breaker, request("tools/list"), unavailable()).await.unwrap();
    call(&breaker, request("ping"), ok()).await.unwrap();
    assert_eq!(breaker.failures(), 0, "no call has failed");
    call(&breaker, request("tools/call"), unavailable()).await.unwrap();
    for method in super::BACKGROUND {
        call(&breaker, request(method), ok()).await.unwrap();
    }
    assert_eq!(breaker.failures(), 1);
    call(&breaker, request("tools/call"), ok()).await.unwrap();
    assert_eq!(breaker.failures(), 0);
}
