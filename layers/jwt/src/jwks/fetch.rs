//! A bounded GET request.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{Request, StatusCode, Uri};
use vmcp_core::{Body, BodyError, HttpClient};

use crate::{KeySourceError, MAX_KEY_SET_SIZE};

/// Timeout of a request, including its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns headers and body of a response with status 200.
pub(crate) async fn get(
    client: &HttpClient,
    uri: &Uri,
) -> Result<(HeaderMap, Bytes), KeySourceError> {
    let result = tokio::time::timeout(REQUEST_TIMEOUT, send_request(client, uri)).await;
    result.unwrap_or(Err(KeySourceError::TooSlow))
}

async fn send_request(
    client: &HttpClient,
    uri: &Uri,
) -> Result<(HeaderMap, Bytes), KeySourceError> {
    let mut request = Request::new(Body::empty());
    request.uri_mut().clone_from(uri);
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    let response = client.send(request).await.map_err(|error| {
        tracing::debug!(host = uri.host(), %error, "failed to reach the issuer");
        KeySourceError::Unreachable
    })?;
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(KeySourceError::Status(head.status.as_u16()));
    }
    let body =
        vmcp_core::collect_limited(body, MAX_KEY_SET_SIZE).await.map_err(|error| match error {
            BodyError::TooLarge { .. } => KeySourceError::TooLarge,
            BodyError::Broken(_) => KeySourceError::Unreachable,
        })?;
    Ok((head.headers, body))
}
