//! HTTP responses of a fake server.

use bytes::Bytes;
use futures_util::stream::{StreamExt, iter, once, poll_fn};
use http::{HeaderValue, Response, StatusCode, Version, header};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::yield_now;

use crate::http_listener::BoxResponse;

/// Events that a stream queues before the client reads them.
const QUEUE: usize = 1024;

/// Returns a response with a complete body.
#[must_use]
pub fn full_response(
    status: StatusCode,
    media: &'static str,
    body: impl Into<Bytes>,
) -> BoxResponse {
    response(status, media, Response::new(Full::new(body.into()).map_err(Into::into).boxed()))
}

/// Returns a JSON response.
#[must_use]
pub fn json_response(status: StatusCode, message: &Value) -> BoxResponse {
    full_response(status, "application/json", message.to_string())
}

/// Returns a response whose body breaks the connection after `start`.
#[must_use]
pub fn broken_response(media: &'static str, start: impl Into<Bytes>) -> BoxResponse {
    let failure = async {
        // Without a pause, the connection would break before `start` is written.
        yield_now().await;
        Err("broken off".into())
    };
    let frames = iter([Ok(Frame::data(start.into()))]).chain(once(failure));
    response(StatusCode::OK, media, Response::new(BodyExt::boxed(StreamBody::new(frames))))
}

/// Returns a response of HTTP/1.0 without a length, whose body ends with the connection.
#[must_use]
pub fn unframed_response(media: &'static str, body: impl Into<Bytes>) -> BoxResponse {
    let frames = iter([Ok(Frame::data(body.into()))]);
    let mut response =
        response(StatusCode::OK, media, Response::new(BodyExt::boxed(StreamBody::new(frames))));
    *response.version_mut() = Version::HTTP_10;
    response
}

/// Returns an event stream and its sender. The stream ends when the sender is dropped; `guard` lives as long as the body.
pub(super) fn event_stream(
    guard: impl Send + Sync + 'static,
) -> (BoxResponse, mpsc::Sender<Bytes>) {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(QUEUE);
    let frames = poll_fn(move |cx| {
        let _in_body = &guard;
        receiver.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    });
    let body = Response::new(BodyExt::boxed(StreamBody::new(frames)));
    (response(StatusCode::OK, "text/event-stream", body), sender)
}

fn response(status: StatusCode, media: &'static str, mut response: BoxResponse) -> BoxResponse {
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
