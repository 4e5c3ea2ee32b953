//! HTTP responses of the fake backends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use http_body::Frame;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use vmcp_core::{Body, BoxError};

/// Body of frames that a test sends.
pub(crate) struct Frames(
    pub(crate) UnboundedReceiver<Bytes>,
    #[expect(dead_code, reason = "counts")] pub(crate) Option<Arc<()>>,
);

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(|frame| Ok(Frame::data(frame))))
    }
}

/// Body that sends a keep-alive comment every second.
struct Endless(Option<Pin<Box<tokio::time::Sleep>>>);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let second = || Box::pin(tokio::time::sleep(Duration::from_secs(1)));
        std::task::ready!(self.0.get_or_insert_with(second).as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b": alive\n\n")))))
    }
}

/// Returns a body of comments that never ends.
pub(crate) fn endless() -> Body {
    Body::wrap(Endless(None))
}

/// Returns a body of the bytes sent to it.
pub(crate) fn body() -> (UnboundedSender<Bytes>, Body) {
    let (sender, receiver) = unbounded_channel();
    (sender, Body::wrap(Frames(receiver, None)))
}

/// Formats a message as an event.
pub(crate) fn event(message: &Value) -> Bytes {
    format!("data: {message}\n\n").into()
}

/// Builds a response.
pub(crate) fn respond(code: u16, media: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response.headers_mut().insert("content-type", HeaderValue::from_static(media));
    response
}

/// Builds a JSON response.
pub(crate) fn whole(message: &Value) -> Response<Body> {
    respond(200, "application/json", Body::from(Bytes::from(message.to_string())))
}

/// Adds the mandatory members to the items of a list.
pub(crate) fn whole_items(member: &str, mut list: Value) -> Value {
    for item in list.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        match member {
            "tools" => {
                item.entry("inputSchema").or_insert_with(|| json!({"type": "object"}));
            }
            "resources" | "resourceTemplates" => {
                item.entry("name").or_insert_with(|| json!("n"));
            }
            _ => {}
        }
    }
    list
}
