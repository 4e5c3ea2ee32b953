//! One exchange over somebody else's HTTP client: bounded in time and size, redirects not followed.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use serde_json::{Map, Value};
use vmcp_core::{Body, BodyError, HttpClient, HttpFuture};

use crate::{Endpoint, EndpointError, EndpointKind, ProviderError};

/// How long one exchange may take, from connecting to the last byte.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest answer that is read, in bytes.
const MAX_RESPONSE_SIZE: usize = 1024 * 1024;

/// The longest error code that is passed on.
const MAX_CODE: usize = 40;

/// An HTTP client that is asked for one whole answer at a time.
#[derive(Clone)]
pub(crate) struct ProviderHttp(HttpClient);

/// The client for what the operator named, and the one for what a provider's metadata names.
#[derive(Clone)]
pub(crate) struct ProviderHttpPair {
    pub(crate) configured: ProviderHttp,
    pub(crate) supplied: ProviderHttp,
}

/// An answer as a whole; never a redirect.
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

    /// The client itself, for what bounds its answers on its own.
    pub(crate) fn client(&self) -> HttpClient {
        self.0.clone()
    }

    /// Sends `request` to `place`, asking for JSON unless it asks for something else.
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
        // What a client says of a connection names addresses, never what was sent.
        tracing::warn!(%place, %error, "an identity provider cannot be reached");
        EndpointError::Unreachable
    })?;
    let (head, body) = response.into_parts();
    if head.status.is_redirection() {
        return Err(EndpointError::Redirected);
    }
    let body = vmcp_core::read(body, MAX_RESPONSE_SIZE).await.map_err(|error| match error {
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
    /// The client for an address that metadata at `home` names: `home` itself is the operator's choice.
    pub(crate) fn for_endpoint(&self, endpoint: &Endpoint, home: &Endpoint) -> &ProviderHttp {
        if endpoint.shares_origin(home) { &self.configured } else { &self.supplied }
    }
}

// === impl ProviderResponse ===

impl ProviderResponse {
    /// The members of the JSON object that a successful answer is, none of them twice; otherwise what is
    /// wrong.
    pub(crate) fn object(&self, place: EndpointKind) -> Result<Map<String, Value>, ProviderError> {
        if self.json || !self.status.is_success() {
            return self.object_of_any_type(place);
        }
        Err(ProviderError::at(place, EndpointError::NotJson))
    }

    /// The same of a place that need not call its JSON so: some that keep to no standard don't.
    pub(crate) fn object_of_any_type(
        &self,
        place: EndpointKind,
    ) -> Result<Map<String, Value>, ProviderError> {
        if !self.status.is_success() {
            return Err(self.rejection(place));
        }
        let cause = if self.json { EndpointError::Malformed } else { EndpointError::NotJson };
        // What a reader says of the answer may quote it: none of it is passed on.
        vmcp_jwt::parse_claims(&self.body).map_err(|_| ProviderError::at(place, cause))
    }

    /// The body of an answer with status 200 that is JSON.
    pub(crate) fn json(&self, place: EndpointKind) -> Result<&[u8], ProviderError> {
        if self.status != StatusCode::OK {
            Err(ProviderError::at(place, EndpointError::Status(self.status.as_u16())))
        } else if self.json {
            Ok(&self.body)
        } else {
            Err(ProviderError::at(place, EndpointError::NotJson))
        }
    }

    /// What an unsuccessful answer means: an OAuth error if it holds one (RFC 6749 section 5.2).
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

/// The OAuth error that an answer holds.
pub(crate) fn oauth_error(
    place: EndpointKind,
    members: &Map<String, Value>,
) -> Option<ProviderError> {
    let code = members.get("error")?.as_str()?;
    Some(if matches!(code, "temporarily_unavailable" | "server_error" | "slow_down") {
        ProviderError::at(place, EndpointError::ServerError)
    } else {
        ProviderError::Rejected { endpoint: place, code: loggable_code(code).into() }
    })
}

/// A code tells the operator what to change. Those of the RFCs are lower-case words; what is not may be
/// anything, a token for example, and is not passed on.
fn loggable_code(code: &str) -> &str {
    let word = (1..=MAX_CODE).contains(&code.len())
        && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if word { code } else { "no reason that can be shown" }
}

/// An answer, for tests.
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
