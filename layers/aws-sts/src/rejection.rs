//! Whether a service refused a request because its credentials are no longer any.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use vmcp_core::{BoxError, read};

use crate::ResponseBody;

/// How long an answer is that is looked into.
const MAX_INSPECTED: usize = 16 << 10;
/// How long it may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The codes of AWS (IAM User Guide, "common errors"), in both spellings that services use.
const CODES: [&str; 3] = ["ExpiredToken", "InvalidClientTokenId", "UnrecognizedClientException"];

/// The refusal did not come to its end.
#[derive(Debug, thiserror::Error)]
#[error("the backend's refusal did not end in time")]
struct BodyTimeout;

/// Whether `response` says so, and the response, of which nothing is lost.
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
    // `Name:http://…` in some services.
    let error_type = response.headers().get("x-amzn-errortype").and_then(|name| name.to_str().ok());
    if let Some(error_type) = error_type {
        let has_expired_credentials =
            contains_code(error_type.split(':').next().unwrap_or_default().as_bytes());
        return Ok((has_expired_credentials, response.map(ResponseBody::forward)));
    }
    // One of unknown length may be a stream, which is not held up.
    let short =
        response.body().size_hint().upper().is_some_and(|upper| upper <= MAX_INSPECTED as u64);
    if !short {
        return Ok((false, response.map(ResponseBody::forward)));
    }
    let (parts, body) = response.into_parts();
    let body = tokio::time::timeout(BODY_TIMEOUT, read(body, MAX_INSPECTED)).await;
    let body = body.map_err(|_| BodyTimeout)??;
    Ok((contains_code(&body), Response::from_parts(parts, ResponseBody::buffered(body))))
}

fn contains_code(text: &[u8]) -> bool {
    CODES.iter().any(|code| text.windows(code.len()).any(|window| window == code.as_bytes()))
}
