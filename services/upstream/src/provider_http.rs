//! HTTP exchanges with a provider: limited in time and size, without redirects.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use serde_json::{Map, Value};
use vmcp_core::{Body, BodyError, HttpClient, HttpFuture};
use vmcp_oauth_client::token_response::loggable_error_code;

use crate::{Endpoint, EndpointError, EndpointKind, ProviderError};

/// Timeout of one exchange, from connecting to the last byte.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a response in bytes.
const MAX_RESPONSE_SIZE: usize = 1024 * 1024;

/// HTTP client that returns complete responses.
#[derive(Clone)]
pub(crate) struct ProviderHttp(HttpClient);

/// HTTP clients for URLs of the configuration and for URLs of the provider's metadata.
#[derive(Clone)]
pub(crate) struct ProviderHttpPair {
    pub(crate) configured: ProviderHttp,
    pub(crate) supplied: ProviderHttp,
}

/// Complete response; never a redirect.
pub(crate) struct ProviderResponse {
    pub(crate) status: StatusCode,
    json: bool,
    body: Bytes,
}

// === impl ProviderHttp ===

impl ProviderHttp {
    pub(crate) fn new(client: impl Into<HttpClient>) -> Self {
        Self(client.into())
    }

    /// Returns the inner client, for callers with limits of their own.
    pub(crate) fn client(&self) -> HttpClient {
        self.0.clone()
    }

    /// Sends `request` to an endpoint. Accepts JSON unless the request has another `Accept` header.
    pub(crate) async fn send(
        &self,
        place: EndpointKind,
        mut request: Request<Body>,
    ) -> Result<ProviderResponse, ProviderError> {
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().entry(ACCEPT).or_insert(json);
        let answer =
            tokio::time::timeout(REQUEST_TIMEOUT, exchange(self.0.send(request), place)).await;
        answer
            .unwrap_or(Err(EndpointError::Timeout))
            .map_err(|cause| ProviderError::at(place, cause))
    }
}

async fn exchange(
    asked: HttpFuture,
    place: EndpointKind,
) -> Result<ProviderResponse, EndpointError> {
    let response = asked.await.map_err(|error| {
        // The error of a connection contains addresses, never the request.
        tracing::warn!(%place, %error, "failed to connect to an identity provider");
        EndpointError::Unreachable
    })?;
    let (head, body) = response.into_parts();
    if head.status.is_redirection() {
        return Err(EndpointError::Redirected);
    }
    let body =
        vmcp_core::collect_limited(body, MAX_RESPONSE_SIZE).await.map_err(|error| match error {
            BodyError::TooLarge { .. } => EndpointError::TooLarge,
            BodyError::Broken(_) => EndpointError::Aborted,
        })?;
    Ok(ProviderResponse { status: head.status, json: is_json(&head.headers), body })
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

// === impl ProviderHttpPair ===

impl ProviderHttpPair {
    /// Returns the client for a URL from the metadata at `home`. URLs of the same origin count as
    /// configured.
    pub(crate) fn for_endpoint(&self, endpoint: &Endpoint, home: &Endpoint) -> &ProviderHttp {
        if endpoint.shares_origin(home) { &self.configured } else { &self.supplied }
    }
}

// === impl ProviderResponse ===

impl ProviderResponse {
    /// Returns the members of the JSON object in a successful response, without duplicates, or the
    /// error.
    pub(crate) fn object(&self, place: EndpointKind) -> Result<Map<String, Value>, ProviderError> {
        if self.json || !self.status.is_success() {
            return self.object_of_any_type(place);
        }
        Err(ProviderError::at(place, EndpointError::NotJson))
    }

    /// Like [`object`](Self::object), for endpoints that may send JSON with another media type.
    pub(crate) fn object_of_any_type(
        &self,
        place: EndpointKind,
    ) -> Result<Map<String, Value>, ProviderError> {
        if !self.status.is_success() {
            return Err(self.rejection(place));
        }
        let cause = if self.json { EndpointError::Malformed } else { EndpointError::NotJson };
        // The parser's error may quote the response, so it is dropped.
        vmcp_jwt::parse_claims(&self.body).map_err(|_| ProviderError::at(place, cause))
    }

    /// Returns the JSON body of a response with status 200.
    pub(crate) fn json(&self, place: EndpointKind) -> Result<&[u8], ProviderError> {
        if self.status != StatusCode::OK {
            Err(ProviderError::at(place, EndpointError::Status(self.status.as_u16())))
        } else if self.json {
            Ok(&self.body)
        } else {
            Err(ProviderError::at(place, EndpointError::NotJson))
        }
    }

    /// Classifies an unsuccessful response: an OAuth error if it contains one (RFC 6749 section
    /// 5.2).
    pub(crate) fn rejection(&self, place: EndpointKind) -> ProviderError {
        let denies = [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
        let code = if denies.contains(&self.status) && self.json {
            let members = vmcp_jwt::parse_claims(&self.body).ok();
            members.and_then(|members| oauth_error(place, &members))
        } else {
            None
        };
        code.unwrap_or_else(|| {
            ProviderError::at(place, EndpointError::Status(self.status.as_u16()))
        })
    }
}

/// Returns the OAuth error in a response.
pub(crate) fn oauth_error(
    place: EndpointKind,
    members: &Map<String, Value>,
) -> Option<ProviderError> {
    let code = members.get("error")?.as_str()?;
    Some(if matches!(code, "temporarily_unavailable" | "server_error" | "slow_down") {
        ProviderError::at(place, EndpointError::ServerError)
    } else {
        let code = loggable_error_code(code).unwrap_or("unrecognized error code");
        ProviderError::Rejected { endpoint: place, code: code.into() }
    })
}

/// Creates a response for tests.
#[cfg(test)]
pub(crate) fn response(status: u16, kind: &'static str, body: &str) -> ProviderResponse {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    let status = StatusCode::from_u16(status).unwrap_or_default();
    ProviderResponse {
        status,
        json: is_json(&headers),
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}
