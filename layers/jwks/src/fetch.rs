//! One GET with a deadline and a cap.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{Request, StatusCode, Uri};
use vmcp_core::{Body, BodyError, HttpClient};
use vmcp_jwt::{KeysError, MAX_SET};

/// How long one request may take, its whole answer included.
const DEADLINE: Duration = Duration::from_secs(5);

/// The answer's headers and its body, if its status is 200.
pub(crate) async fn get(client: &HttpClient, uri: &Uri) -> Result<(HeaderMap, Bytes), KeysError> {
    let answer = tokio::time::timeout(DEADLINE, exchange(client, uri)).await;
    answer.unwrap_or(Err(KeysError::TooSlow))
}

async fn exchange(client: &HttpClient, uri: &Uri) -> Result<(HeaderMap, Bytes), KeysError> {
    let mut request = Request::new(Body::empty());
    request.uri_mut().clone_from(uri);
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    let response = client.send(request).await.map_err(|error| {
        tracing::debug!(host = uri.host(), %error, "an issuer cannot be reached");
        KeysError::Unreachable
    })?;
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(KeysError::Status(head.status.as_u16()));
    }
    let body = vmcp_core::read(body, MAX_SET).await.map_err(|error| match error {
        BodyError::TooLarge { .. } => KeysError::TooLarge,
        BodyError::Broken(_) => KeysError::Unreachable,
    })?;
    Ok((head.headers, body))
}
