//! JSON responses.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, PRAGMA, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

/// Returns a JSON response that must not be cached.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let bytes =
        serde_json::to_vec(body).expect("response types have string keys and infallible values");
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    response
}

/// Returns a document with a public cache lifetime, short enough that clients see a new key before it signs.
pub(crate) fn public_json(document: Bytes) -> Response {
    let mut response = Response::new(Body::from(document));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=600"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
