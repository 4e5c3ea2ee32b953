//! Responses that stream server-sent events.

use bytes::{Bytes, BytesMut};
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http_body::Frame;
use vmcp_core::Body;
use vmcp_wire::sse;

/// Approximate maximum number of bytes in one frame; the connection's own buffers are not counted.
pub(crate) const MAX_FRAME: usize = 32 << 10;

/// Space for the fields around an event's data, in bytes.
pub(crate) const FIELDS: usize = 64;

/// Builds a response that streams events.
pub(crate) fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Returns the next piece of the event that is being sent, until it is complete.
pub(crate) fn next_piece(encoder: &mut Option<sse::Encoder>) -> Option<Frame<Bytes>> {
    let event = encoder.as_mut()?;
    let mut out = BytesMut::with_capacity(event.remaining().min(MAX_FRAME) + FIELDS);
    if event.encode(None, MAX_FRAME, &mut out) {
        *encoder = None;
    }
    Some(Frame::data(out.freeze()))
}
