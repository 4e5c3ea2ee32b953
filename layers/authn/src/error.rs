//! Why a request is not let in.

use std::borrow::Cow;

use vmcp_jwt::{TokenError, VerifyError};
use vmcp_protected_resource::BearerError;

/// Why a request is not let in (RFC 6750 section 3.1). What stands in it is shown to the client, so
/// nothing of a token and nothing that a parser said belongs there.
///
/// | Refusal | HTTP | `error` in the challenge | `error` in the body |
/// |---|---|---|---|
/// | [`NoCredentials`](Refusal::NoCredentials) | 401 | none | `invalid_request` |
/// | [`InvalidRequest`](Refusal::InvalidRequest) | 401 | `invalid_request` | the same |
/// | [`InvalidToken`](Refusal::InvalidToken) | 401 | `invalid_token` | the same |
/// | [`InsufficientScope`](Refusal::InsufficientScope) | 403 | `insufficient_scope` | the same |
/// | [`TooManyAttempts`](Refusal::TooManyAttempts) | 429 and `Retry-After` | no challenge | `too_many_requests` |
/// | [`Unavailable`](Refusal::Unavailable) | 503 and `Retry-After` | no challenge | `temporarily_unavailable` |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthError {
    /// There is no `Authorization` header.
    NoCredentials,
    /// There is one that is no single bearer token.
    InvalidRequest(Cow<'static, str>),
    /// The token does not count, or does not count any more.
    InvalidToken(Cow<'static, str>),
    /// The token is good, but for less. These are all the scopes that are needed.
    InsufficientScope(Vec<Box<str>>),
    /// The address has presented too many tokens that are not valid.
    TooManyAttempts {
        /// When trying again may help, in seconds.
        retry_after: u32,
    },
    /// Nobody can tell at the moment: the identity provider does not answer.
    Unavailable {
        /// When trying again may help, in seconds.
        retry_after: u32,
    },
}

/// When trying again may help after an identity provider could not be asked: it is asked again then.
const RETRY_AFTER_SECONDS: u32 = 5;

impl AuthError {
    /// The identity provider cannot be asked.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::Unavailable { retry_after: RETRY_AFTER_SECONDS }
    }

    /// In fixed words, for who counts and records.
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
