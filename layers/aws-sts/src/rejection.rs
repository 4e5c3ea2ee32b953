//! Detection of responses that reject a request because its credentials have expired.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use vmcp_core::{BoxError, collect_limited};

use crate::ResponseBody;

/// Maximum size of an inspected response body.
const MAX_INSPECTED: usize = 16 << 10;
/// Timeout for reading an inspected response body.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// AWS error codes for unusable credentials (IAM User Guide, "common errors"). The last two are the spellings of different
/// services for the same error.
const CODES: [&str; 3] = ["ExpiredToken", "InvalidClientTokenId", "UnrecognizedClientException"];

/// The body of a 403 response did not end before the timeout.
#[derive(Debug, thiserror::Error)]
#[error("the backend's refusal did not end in time")]
struct BodyTimeout;

/// Returns `true` if `response` rejects expired credentials, together with the complete response.
pub(crate) async fn has_expired_credentials<R>(
    response: Response<R>,
) -> Result<(bool, Response<ResponseBody<R>>), BoxError>
where
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    if response.status() != StatusCode::FORBIDDEN {
        return Ok((false, response.map(ResponseBody::forward)));
    }
    // Some services append a URL: `Name:http://…`.
    let error_type = response.headers().get("x-amzn-errortype").and_then(|name| name.to_str().ok());
    if let Some(error_type) = error_type {
        let has_expired_credentials =
            contains_code(error_type.split(':').next().unwrap_or_default().as_bytes());
        return Ok((has_expired_credentials, response.map(ResponseBody::forward)));
    }
    // A body of unknown length may be a stream, which must not be delayed.
    let short =
        response.body().size_hint().upper().is_some_and(|upper| upper <= MAX_INSPECTED as u64);
    if !short {
        return Ok((false, response.map(ResponseBody::forward)));
    }
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(BODY_TIMEOUT, collect_limited(body, MAX_INSPECTED)).await;
    let body = body.map_err(|_| BodyTimeout)??;
    Ok((contains_code(&body), Response::from_parts(parts, ResponseBody::buffered(body))))
}

fn contains_code(text: &[u8]) -> bool {
    CODES.iter().any(|code| text.windows(code.len()).any(|window| window == code.as_bytes()))
}
