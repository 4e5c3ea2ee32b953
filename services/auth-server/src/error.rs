//! OAuth error codes and the responses that carry them.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, PRAGMA, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use vmcp_auth_store::StoreError;

/// OAuth error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    // RFC 6749 sections 4.1.2.1 and 5.2.
    InvalidRequest,
    InvalidClient,
    InvalidGrant,
    UnauthorizedClient,
    UnsupportedGrantType,
    UnsupportedResponseType,
    InvalidScope,
    AccessDenied,
    ServerError,
    TemporarilyUnavailable,
    // RFC 8707 section 2.
    InvalidTarget,
    // RFC 7591 section 3.2.2.
    InvalidRedirectUri,
    InvalidClientMetadata,
    // OpenID Connect Core 1.0 section 3.1.2.6.
    LoginRequired,
    RequestNotSupported,
    RequestUriNotSupported,
    RegistrationNotSupported,
    // RFC 6750 section 3.1.
    InvalidToken,
    InsufficientScope,
}

/// OAuth error with a fixed description for the client's developers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    pub(crate) description: &'static str,
    /// Index of the upstream provider that caused the error.
    pub(crate) leg: Option<usize>,
    retry_after: Option<Duration>,
    too_many: bool,
    basic: bool,
}

#[derive(Serialize)]
struct Answer {
    error: &'static str,
    error_description: &'static str,
}

// === impl Code ===

impl Code {
    /// Returns the code as it appears in the response.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::UnauthorizedClient => "unauthorized_client",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::InvalidScope => "invalid_scope",
            Self::AccessDenied => "access_denied",
            Self::ServerError => "server_error",
            Self::TemporarilyUnavailable => "temporarily_unavailable",
            Self::InvalidTarget => "invalid_target",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidClientMetadata => "invalid_client_metadata",
            Self::LoginRequired => "login_required",
            Self::RequestNotSupported => "request_not_supported",
            Self::RequestUriNotSupported => "request_uri_not_supported",
            Self::RegistrationNotSupported => "registration_not_supported",
            Self::InvalidToken => "invalid_token",
            Self::InsufficientScope => "insufficient_scope",
        }
    }

    /// Returns the status of a direct response to the client.
    fn status(self) -> StatusCode {
        match self {
            Self::InvalidClient | Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::AccessDenied | Self::InsufficientScope => StatusCode::FORBIDDEN,
            Self::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
            Self::TemporarilyUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

// === impl Fault ===

impl Fault {
    pub(crate) const fn new(code: Code, description: &'static str) -> Self {
        Self { code, description, leg: None, retry_after: None, too_many: false, basic: false }
    }

    pub(crate) const fn request(description: &'static str) -> Self {
        Self::new(Code::InvalidRequest, description)
    }

    pub(crate) const fn grant(description: &'static str) -> Self {
        Self::new(Code::InvalidGrant, description)
    }

    pub(crate) const fn server() -> Self {
        Self::new(Code::ServerError, "the server failed; nothing was done")
    }

    /// Creates a temporary error with the time after which to retry.
    pub(crate) const fn later(description: &'static str, after: Duration) -> Self {
        Self { retry_after: Some(after), ..Self::new(Code::TemporarilyUnavailable, description) }
    }

    /// Creates the error for too many requests from one address.
    pub(crate) const fn too_many(after: Duration) -> Self {
        Self { too_many: true, ..Self::later("too many requests from this address", after) }
    }

    /// Sets the index of the upstream provider that caused the error.
    pub(crate) fn at(mut self, leg: usize) -> Self {
        self.leg = Some(leg);
        self
    }

    /// Records whether the client used HTTP Basic: the response must then include a challenge (RFC 6749 section 5.2).
    pub(crate) fn basic(mut self, basic: bool) -> Self {
        self.basic = basic;
        self
    }

    /// Returns the status of a direct response to the client.
    pub(crate) fn status(&self) -> StatusCode {
        if self.too_many { StatusCode::TOO_MANY_REQUESTS } else { self.code.status() }
    }

    /// Returns the direct response to the client (RFC 6749 section 5.2).
    pub(crate) fn respond(&self) -> Response {
        let body = Answer { error: self.code.name(), error_description: self.description };
        let mut response = json(self.status(), &body);
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after {
            headers.insert(RETRY_AFTER, after.as_secs().max(1).into());
        }
        if self.basic && self.code == Code::InvalidClient {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"token\""));
        }
        response
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable => {
                tracing::warn!(%error, "the authorization server's store does not answer");
                Self::later("the server's store cannot be reached", Duration::from_secs(5))
            }
            StoreError::Full { what } => {
                tracing::warn!(what, "the authorization server's store is full");
                Self::later(
                    "the server has no room for more at the moment",
                    Duration::from_secs(60),
                )
            }
            StoreError::Corrupt { what } => {
                tracing::error!(
                    what,
                    "the authorization server's store holds an unreadable record"
                );
                Self::server()
            }
        }
    }
}

impl From<crate::opaque::NoRandomness> for Fault {
    fn from(error: crate::opaque::NoRandomness) -> Self {
        tracing::error!(%error, "nothing can be issued");
        Self::server()
    }
}

/// Returns a JSON response that must not be cached.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let bytes = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_how_long_to_wait_and_is_kept_by_nobody() {
        let response = Fault::too_many(Duration::from_millis(1)).respond();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.headers()["cache-control"], "no-store");
    }

    #[test]
    fn who_tried_basic_is_told_of_basic() {
        let fault = Fault::new(Code::InvalidClient, "x");
        assert!(fault.clone().basic(true).respond().headers().contains_key("www-authenticate"));
        assert!(!fault.basic(false).respond().headers().contains_key("www-authenticate"));
    }

    #[test]
    fn the_store_being_away_is_worth_another_try_and_a_damaged_record_is_not() {
        assert_eq!(Fault::from(StoreError::Unavailable).respond().status(), 503);
        assert_eq!(Fault::from(StoreError::Corrupt { what: "grant" }).respond().status(), 500);
    }
}
