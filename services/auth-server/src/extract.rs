//! Extraction of the client address and the body from a request.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use bytes::Bytes;
use futures_util::StreamExt;
use http::Request;
use http::header::CONTENT_TYPE;
use vmcp_auth_store::Digest;
use vmcp_core::{BodyBuffer, ByteBudget, MAX_BUDGET_WAIT};

use crate::error::OAuthError;
use crate::error_page::ErrorPage;

/// Maximum size of a request body, in bytes.
pub const MAX_BODY: usize = 64 * 1024;

/// Time limit for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the peer address of a request: a `SocketAddr` in the request's extensions, plain or as axum's `ConnectInfo`.
/// Requests without one count as one address.
pub(crate) fn peer_address<B>(request: &Request<B>) -> IpAddr {
    let plain = request.extensions().get::<SocketAddr>();
    let connected = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| &info.0);
    plain.or(connected).map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), SocketAddr::ip)
}

/// Returns the digest of the client's network, by which logins are counted.
pub(crate) fn network_digest(address: IpAddr) -> Digest {
    Digest::of(["origin\0", &vmcp_core::network(address).to_string()].concat())
}

/// Returns `true` if the browser's headers say that the form is from a page of this server. The form's token is the actual
/// check; this one rejects earlier.
pub(crate) fn is_same_origin_form(request: &Request<Body>) -> bool {
    let site = request.headers().get("sec-fetch-site");
    site.is_none_or(|site| site == "same-origin")
}

/// Reads the body of a request with this content type.
pub(crate) async fn read_body(request: Request<Body>, media: &str) -> Result<Bytes, BodyError> {
    let given = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split(';').next()).unwrap_or_default();
    if !given.trim().eq_ignore_ascii_case(media) {
        return Err(BodyError::ContentType);
    }
    let read = tokio::time::timeout(BODY_TIMEOUT, collect_body(request));
    read.await.unwrap_or(Err(BodyError::Incomplete))
}

/// Reads the body of a request. Its bytes count toward the budget in the request's extensions, if there is one.
async fn collect_body(request: Request<Body>) -> Result<Bytes, BodyError> {
    let address = peer_address(&request);
    let (parts, body) = request.into_parts();
    let mut data = body.into_data_stream();
    let budget = parts.extensions.get::<ByteBudget>();
    let mut buffer = BodyBuffer::new(MAX_BODY, 0);
    while let Some(data) = data.next().await {
        let data = data.map_err(|_| BodyError::Incomplete)?;
        buffer.push(data).map_err(|_| BodyError::TooLarge)?;
        if let Some(budget) = budget.filter(|_| buffer.missing() > 0) {
            let reserve = buffer.reserve(|| budget.open(budget.address(Some(address))));
            let reserved = tokio::time::timeout(MAX_BUDGET_WAIT, reserve).await;
            if !matches!(reserved, Ok(Ok(()))) {
                budget.count_rejection();
                return Err(BodyError::Overloaded);
            }
        }
    }
    Ok(buffer.finish())
}

/// Reads the body of a form.
pub(crate) async fn read_form(request: Request<Body>) -> Result<Bytes, BodyError> {
    read_body(request, "application/x-www-form-urlencoded").await
}

/// Error while reading a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// The content type is another one.
    ContentType,
    /// The body is larger than [`MAX_BODY`].
    TooLarge,
    /// The connection broke, or the body took too long.
    Incomplete,
    /// The server's budget for buffered bytes is used up.
    Overloaded,
}

/// Error for a request beyond the server's budget for buffered bytes.
pub(crate) const OVERLOADED: OAuthError = OAuthError::temporarily_unavailable(
    "the server buffers too many request bytes; retry later",
    MAX_BUDGET_WAIT,
);

impl From<BodyError> for OAuthError {
    fn from(error: BodyError) -> Self {
        Self::invalid_request(match error {
            BodyError::ContentType => {
                "Content-Type is not supported: use application/x-www-form-urlencoded"
            }
            BodyError::TooLarge => "the body is too large: send at most 64 KiB",
            BodyError::Incomplete => {
                "failed to read body: it is incomplete or took longer than 10 s"
            }
            BodyError::Overloaded => return OVERLOADED,
        })
    }
}

impl From<BodyError> for ErrorPage {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::ContentType | BodyError::TooLarge | BodyError::Incomplete => Self::MALFORMED,
            BodyError::Overloaded => Self::UNAVAILABLE,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use tokio::time::Instant;

    use super::*;

    fn request(budget: &ByteBudget, address: [u8; 4]) -> Request<Body> {
        let text = format!("a={}", "x".repeat(20_000));
        let mut request = Request::new(Body::from(text));
        let media = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(CONTENT_TYPE, media);
        request.extensions_mut().insert(SocketAddr::from((address, 1)));
        request.extensions_mut().insert(budget.clone());
        request
    }

    #[tokio::test(start_paused = true)]
    async fn forms_count_toward_byte_budget() {
        let budget = ByteBudget::new(70_000);
        let (one, other) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        let first = read_form(request(&budget, one)).await.unwrap();
        assert_eq!((first.len(), budget.counts().held), (20_002, 20_002));
        let begun = Instant::now();
        let refused = read_form(request(&budget, one)).await.unwrap_err();
        assert_eq!((refused, begun.elapsed()), (BodyError::Overloaded, MAX_BUDGET_WAIT));
        let answer = OAuthError::from(refused).to_response();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["retry-after"]),
            (503, &"2".parse().unwrap())
        );
        assert!(read_form(request(&budget, other)).await.is_ok(), "another address");
        drop(first);
        assert!(read_form(request(&budget, one)).await.is_ok());
        assert_eq!(budget.counts().held, 0);
    }
}
