//! Requests to a backend.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request};
use http_body_util::Full;
use vmcp_core::STATELESS;
use vmcp_decode::name;
use vmcp_timeout::Hold;

use super::Link;

pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A message to a backend.
pub(crate) fn post(link: &Link, message: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(message));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = link.uri.clone();
    let headers = request.headers_mut();
    headers.reserve(6);
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(ACCEPT, EITHER);
    request
}

/// The stream on which a stateful backend speaks unasked, from behind `last` if that is given.
/// It may be silent for as long as it likes.
pub(crate) fn listen(link: &Link, last: Option<&Bytes>) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    *request.uri_mut() = link.uri.clone();
    request.headers_mut().insert(ACCEPT, EVENTS);
    if let Some(last) = last.and_then(|id| HeaderValue::from_bytes(id).ok()) {
        request.headers_mut().insert(LAST_EVENT, last);
    }
    let hold = Hold::new();
    hold.forever();
    request.extensions_mut().insert(hold);
    request
}

/// Ends a stateful backend's session.
pub(crate) fn delete(link: &Link) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    *request.method_mut() = Method::DELETE;
    *request.uri_mut() = link.uri.clone();
    request
}

/// The headers that a stateless request repeats its body in.
pub(crate) fn stateless(headers: &mut HeaderMap, method: &'static str, target: Option<&str>) {
    headers.insert(REVISION, HeaderValue::from_static(STATELESS));
    headers.insert(METHOD, HeaderValue::from_static(method));
    if let Some(target) = target.and_then(name::encode) {
        headers.insert(NAME, target);
    }
}
