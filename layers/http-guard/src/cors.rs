//! The CORS headers of an MCP endpoint, on tower-http's [`CorsLayer`].

use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

const ALLOWED_HEADERS: &str = "authorization, content-type, accept, last-event-id, \
     mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";

const EXPOSED_HEADERS: [HeaderName; 3] =
    [HeaderName::from_static("mcp-session-id"), header::WWW_AUTHENTICATE, header::RETRY_AFTER];

/// Time for which a browser may cache the response to a preflight.
const PREFLIGHT_LIFETIME: Duration = Duration::from_mins(10);

/// Returns the CORS layer for requests whose origin has been checked.
pub(crate) fn mcp_cors() -> CorsLayer {
    CorsLayer::new()
        .allow_origin(AllowOrigin::mirror_request())
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        // `expand_requested_headers` has replaced the requested headers.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED_HEADERS)
        .max_age(PREFLIGHT_LIFETIME)
        .vary([header::ORIGIN])
}

pub(crate) fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ORIGIN)
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Returns `true` if the response depends on `Origin`: a page sent the request, or a cache may store the response and use
/// it for a page.
pub(crate) fn varies_by_origin<B>(request: &Request<B>) -> bool {
    match *request.method() {
        // Without a request method it is not a preflight, and the inner service responds to it.
        Method::OPTIONS => is_preflight(request),
        Method::GET | Method::HEAD => true,
        _ => request.headers().contains_key(header::ORIGIN),
    }
}

/// Replaces the requested headers of a preflight with all that a page may send, for a layer that mirrors them: the MCP
/// headers, and the requested headers for tool arguments, whose names the tools define (MCP 2026-07-28, Streamable HTTP).
pub(crate) fn expand_requested_headers(headers: &mut HeaderMap) {
    let requested = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
    let mut all = ALLOWED_HEADERS.to_owned();
    let names = requested.and_then(|names| names.to_str().ok()).unwrap_or_default().split(',');
    let names = names.filter_map(|name| HeaderName::try_from(name.trim()).ok());
    for name in names.filter(|name| name.as_str().starts_with("mcp-param-")) {
        all.push_str(", ");
        all.push_str(name.as_str());
    }
    let all = HeaderValue::try_from(all).unwrap_or(HeaderValue::from_static(ALLOWED_HEADERS));
    headers.insert(header::ACCESS_CONTROL_REQUEST_HEADERS, all);
}
