//! Reasons for rejected requests.

use std::borrow::Cow;

use vmcp_jwt::{TokenError, VerifyError};

use crate::BearerError;

/// The reason for a rejected request (RFC 6750 section 3.1). Its text is sent to the client, so it contains neither
/// parts of a token nor the output of a parser.
///
/// | Error | HTTP | `error` in the challenge | `error` in the body |
/// |---|---|---|---|
/// | [`NoCredentials`](AuthError::NoCredentials) | 401 | none | `invalid_request` |
/// | [`InvalidRequest`](AuthError::InvalidRequest) | 401 | `invalid_request` | the same |
/// | [`InvalidToken`](AuthError::InvalidToken) | 401 | `invalid_token` | the same |
/// | [`InsufficientScope`](AuthError::InsufficientScope) | 403 | `insufficient_scope` | the same |
/// | [`TooManyAttempts`](AuthError::TooManyAttempts) | 429 and `Retry-After` | no challenge | `too_many_requests` |
/// | [`Unavailable`](AuthError::Unavailable) | 503 and `Retry-After` | no challenge | `temporarily_unavailable` |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthError {
    /// The `Authorization` header is missing.
    NoCredentials,
    /// The `Authorization` header is not a single bearer token.
    InvalidRequest(Cow<'static, str>),
    /// The token is invalid, expired or revoked.
    InvalidToken(Cow<'static, str>),
    /// The token lacks scopes. Contains all required scopes.
    InsufficientScope(Vec<Box<str>>),
    /// The address presented too many invalid tokens.
    TooManyAttempts {
        /// Seconds after which a retry may succeed.
        retry_after: u32,
    },
    /// The identity provider is unavailable.
    Unavailable {
        /// Seconds after which a retry may succeed.
        retry_after: u32,
    },
}

/// Seconds until an unavailable identity provider is asked again.
const RETRY_AFTER_SECONDS: u32 = 5;

impl AuthError {
    /// Creates the error of an unavailable identity provider.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::Unavailable { retry_after: RETRY_AFTER_SECONDS }
    }

    /// Returns the reason as a fixed text for metrics and audit events.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoCredentials => "no credentials",
            Self::InvalidRequest(_) => "malformed credentials",
            Self::InvalidToken(_) => "invalid token",
            Self::InsufficientScope(_) => "insufficient scope",
            Self::TooManyAttempts { .. } => "too many invalid tokens",
            Self::Unavailable { .. } => "identity provider unavailable",
        }
    }
}

impl From<BearerError> for AuthError {
    fn from(error: BearerError) -> Self {
        match error {
            BearerError::Missing => Self::NoCredentials,
            error => Self::InvalidRequest(error.to_string().into()),
        }
    }
}

impl From<TokenError> for AuthError {
    fn from(error: TokenError) -> Self {
        Self::InvalidToken(error.to_string().into())
    }
}

impl From<VerifyError> for AuthError {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Token(error) => error.into(),
            VerifyError::Keys(_) => Self::unavailable(),
        }
    }
}
