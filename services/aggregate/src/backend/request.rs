//! Requests to a backend.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request};
use http_body_util::Full;
use vmcp_core::{Caller, McpOperation, RequestContext, STATELESS};
use vmcp_decode::header_value;
use vmcp_timeout::TimeoutControl;

use super::BackendHandle;

pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Builds a request that posts a message on behalf of `caller`.
pub(crate) fn post(
    backend: &BackendHandle,
    caller: &Caller,
    message: Bytes,
) -> Request<Full<Bytes>> {
    post_with(backend, caller, message, 6)
}

/// Builds a request of revision 2026-07-28 or later.
pub(crate) fn post_stateless(
    backend: &BackendHandle,
    caller: &Caller,
    message: Bytes,
    method: &'static str,
    target: Option<&str>,
) -> Request<Full<Bytes>> {
    let mut request = post_with(backend, caller, message, 12);
    stateless(request.headers_mut(), method, target);
    request
}

/// Builds the request with capacity for this number of headers, including those added later.
fn post_with(
    backend: &BackendHandle,
    caller: &Caller,
    message: Bytes,
    headers: usize,
) -> Request<Full<Bytes>> {
    let mut request = bare(backend, caller, Method::POST, Full::new(message));
    request.headers_mut().reserve(headers);
    request.headers_mut().insert(CONTENT_TYPE, JSON);
    request.headers_mut().insert(ACCEPT, EITHER);
    request
}

/// Builds the request for the notification stream of a stateful backend, resumed after event `last` if given. The stream has no
/// idle timeout.
pub(crate) fn listen(
    backend: &BackendHandle,
    caller: &Caller,
    last: Option<&Bytes>,
) -> Request<Full<Bytes>> {
    let mut request = bare(backend, caller, Method::GET, Full::default());
    request.headers_mut().insert(ACCEPT, EVENTS);
    if let Some(last) = last.and_then(|id| HeaderValue::from_bytes(id).ok()) {
        request.headers_mut().insert(LAST_EVENT, last);
    }
    let hold = TimeoutControl::new();
    hold.disable();
    request.extensions_mut().insert(hold);
    request
}

/// Builds the request that ends a session of a stateful backend.
pub(crate) fn delete(backend: &BackendHandle, caller: &Caller) -> Request<Full<Bytes>> {
    bare(backend, caller, Method::DELETE, Full::default())
}

/// Builds a request that carries the caller in its extensions for credential layers. An anonymous caller is omitted because it
/// has no credentials.
fn bare(
    backend: &BackendHandle,
    caller: &Caller,
    method: Method,
    body: Full<Bytes>,
) -> Request<Full<Bytes>> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = backend.uri.clone();
    if !matches!(caller, Caller::User(identity) if identity.is_anonymous()) {
        request.extensions_mut().insert(caller.clone());
    }
    request
}

/// Attaches the method, the target and the causing client request. Messages that are not requests have no method.
pub(crate) fn with_operation(
    mut request: Request<Full<Bytes>>,
    method: &'static str,
    cause: Option<&RequestContext>,
) -> Request<Full<Bytes>> {
    let operation = McpOperation::new(method);
    request.extensions_mut().insert(match cause {
        Some(request_context) => operation.with_client_request(request_context.clone()),
        None => operation,
    });
    request
}

/// Adds the headers that repeat members of a stateless request's body.
pub(crate) fn stateless(headers: &mut HeaderMap, method: &'static str, target: Option<&str>) {
    headers.insert(REVISION, HeaderValue::from_static(STATELESS));
    headers.insert(METHOD, HeaderValue::from_static(method));
    if let Some(target) = target.and_then(header_value::encode) {
        headers.insert(NAME, target);
    }
}
