//! OAuth error codes and the responses that carry them.

use std::time::Duration;

use axum::response::Response;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use vmcp_auth_store::{EncryptionError, StoreError};

use crate::response::json;

/// OAuth error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCode {
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
pub(crate) struct OAuthError {
    pub(crate) code: ErrorCode,
    pub(crate) description: &'static str,
    /// Index of the upstream provider that caused the error.
    pub(crate) upstream: Option<usize>,
    retry_after: Option<Duration>,
    too_many: bool,
    basic: bool,
}

#[derive(Serialize)]
struct ErrorBody {
    error: &'static str,
    error_description: &'static str,
}

// === impl ErrorCode ===

impl ErrorCode {
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

// === impl OAuthError ===

impl OAuthError {
    pub(crate) const fn new(code: ErrorCode, description: &'static str) -> Self {
        Self { code, description, upstream: None, retry_after: None, too_many: false, basic: false }
    }

    pub(crate) const fn invalid_request(description: &'static str) -> Self {
        Self::new(ErrorCode::InvalidRequest, description)
    }

    pub(crate) const fn invalid_grant(description: &'static str) -> Self {
        Self::new(ErrorCode::InvalidGrant, description)
    }

    pub(crate) const fn server_error() -> Self {
        Self::new(ErrorCode::ServerError, "the server failed and changed nothing; retry later")
    }

    /// Creates a temporary error with the time after which to retry.
    pub(crate) const fn temporarily_unavailable(
        description: &'static str,
        after: Duration,
    ) -> Self {
        Self {
            retry_after: Some(after),
            ..Self::new(ErrorCode::TemporarilyUnavailable, description)
        }
    }

    /// Creates the error for too many requests from one address.
    pub(crate) const fn too_many(after: Duration) -> Self {
        Self {
            too_many: true,
            ..Self::temporarily_unavailable(
                "too many requests from this address; retry later",
                after,
            )
        }
    }

    /// Sets the index of the upstream provider that caused the error.
    pub(crate) fn caused_by(mut self, upstream: usize) -> Self {
        self.upstream = Some(upstream);
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
    pub(crate) fn to_response(&self) -> Response {
        let body = ErrorBody { error: self.code.name(), error_description: self.description };
        let mut response = json(self.status(), &body);
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after {
            headers.insert(RETRY_AFTER, after.as_secs().max(1).into());
        }
        if self.basic && self.code == ErrorCode::InvalidClient {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"token\""));
        }
        response
    }
}

impl From<StoreError> for OAuthError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable => {
                tracing::warn!(%error, "authorization store unavailable");
                Self::temporarily_unavailable(
                    "the store of the server is unavailable; retry later",
                    Duration::from_secs(5),
                )
            }
            StoreError::Full { what } => {
                tracing::warn!(what, "authorization store full");
                Self::temporarily_unavailable(
                    "the store of the server is full; retry later",
                    Duration::from_mins(1),
                )
            }
            StoreError::Corrupt { what } => {
                tracing::error!(what, "authorization store has a corrupt record");
                Self::server_error()
            }
        }
    }
}

impl From<crate::random_tokens::RandomUnavailable> for OAuthError {
    fn from(error: crate::random_tokens::RandomUnavailable) -> Self {
        tracing::error!(%error, "random generator failed");
        Self::server_error()
    }
}

impl From<EncryptionError> for OAuthError {
    fn from(error: EncryptionError) -> Self {
        tracing::error!(%error, "failed to encrypt or decrypt stored data");
        Self::server_error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_responses_have_retry_after_and_no_store() {
        let response = OAuthError::too_many(Duration::from_millis(1)).to_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.headers()["cache-control"], "no-store");
    }

    #[test]
    fn basic_failure_has_basic_challenge() {
        let error = OAuthError::new(ErrorCode::InvalidClient, "x");
        assert!(error.clone().basic(true).to_response().headers().contains_key("www-authenticate"));
        assert!(!error.basic(false).to_response().headers().contains_key("www-authenticate"));
    }

    #[test]
    fn only_unavailable_store_is_retryable() {
        assert_eq!(OAuthError::from(StoreError::Unavailable).to_response().status(), 503);
        assert_eq!(
            OAuthError::from(StoreError::Corrupt { what: "grant" }).to_response().status(),
            500
        );
    }
}
