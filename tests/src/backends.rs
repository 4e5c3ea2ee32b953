//! Small MCP servers to put behind the gateway: [`ConformingServer`] ones with scripted responses, [`ServerFault`] ones, and [`EchoServer`]s.
//!
//! They use hyper directly, so that a test sees the exact bytes and headers of requests, and can send responses that no
//! library would produce.

mod conforming_responses;
mod conforming_server;
mod echo_server;
mod faulty_server;
mod http_listener;
mod state;

pub use conforming_server::ConformingServer;
pub use echo_server::{EchoServer, RecordedRequest, Voice};
pub use faulty_server::{FaultyServer, ServerFault};
pub use http_listener::{BoxResponse, HttpListener};
pub use state::Forgetting;

use std::convert::Infallible;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::mpsc;

/// The header that names a session.
pub const SESSION: &str = "mcp-session-id";

/// The header that names a revision of MCP.
pub const VERSION: &str = "mcp-protocol-version";

/// The revision of the stateless generation.
pub const STATELESS: &str = "2026-07-28";

/// Event queue capacity per stream.
const QUEUE: usize = 1024;

/// Returns a response with a complete body.
fn whole(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> BoxResponse {
    let mut response = Response::new(Full::new(body.into()).map_err(Into::into).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media));
    response
}

/// Returns a JSON response.
fn json_answer(status: StatusCode, message: &Value) -> BoxResponse {
    whole(status, "application/json", message.to_string())
}

/// Returns an event stream and its sender; the stream ends when the sender is dropped.
fn event_stream() -> (BoxResponse, mpsc::Sender<Bytes>) {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(QUEUE);
    let frames = futures_util::stream::poll_fn(move |cx| {
        receiver
            .poll_recv(cx)
            .map(|chunk| chunk.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk))))
    });
    let body = StreamBody::new(frames).map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    let media = header::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    (response, sender)
}

/// Formats a message as an event.
fn event(message: &Value) -> Bytes {
    format!("data: {message}\n\n").into()
}

/// Returns a body that fails after `start`.
fn broken(start: &str) -> BoxResponse {
    let start = Bytes::copy_from_slice(start.as_bytes());
    let frames = [Ok(Frame::data(start)), Err("broken off".into())];
    let body = StreamBody::new(futures_util::stream::iter(frames)).boxed();
    let mut answer = Response::new(body);
    let media = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, media);
    answer
}
