//! Client for posts to a channel's endpoint.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Extensions, Method, Request, Response, Uri};
use http_body_util::Full;
use tower::ServiceExt;
use vmcp_core::{Body, BoxError};

use crate::backend::collect::drain_body;
use crate::backend::request::{LAST_EVENT, SESSION};
use crate::settings::BackendService;

/// Client that posts messages with the caller and headers of the request from which it was created.
#[derive(Clone, Debug)]
pub(super) struct MessagePoster {
    inner: BackendService,
    endpoint: Uri,
    headers: HeaderMap,
    extensions: Extensions,
}

impl MessagePoster {
    pub(super) fn new(inner: BackendService, endpoint: Uri, parts: Parts) -> Self {
        let Parts { mut headers, extensions, .. } = parts;
        headers.remove(SESSION);
        headers.remove(LAST_EVENT);
        headers.remove(CONTENT_LENGTH);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        Self { inner, endpoint, headers, extensions }
    }

    /// Posts a message. Returns the backend's response if it rejects the message.
    pub(super) async fn post(&self, message: Bytes) -> Result<Option<Response<Body>>, BoxError> {
        let mut request = Request::new(Full::new(message));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.clone();
        *request.headers_mut() = self.headers.clone();
        *request.extensions_mut() = self.extensions.clone();
        let response = self.inner.clone().oneshot(request).await?;
        if !response.status().is_success() {
            return Ok(Some(response));
        }
        drain_body(response).await;
        Ok(None)
    }
}
