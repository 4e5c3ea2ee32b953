//! Why there is no token for a backend.

use std::error::Error;
use std::sync::Arc;

use http::StatusCode;
use vmcp_core::CredentialFault;

/// Why an exchange brought no token. Cheap to clone: all who wait for one exchange get it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The authorization server answered, and its answer is no: trying again does not help.
    #[error("the authorization server refused: {code}")]
    Rejected {
        /// Its error code (RFC 6749 section 5.2, RFC 8693 section 2.2.2), or fixed words. Never a
        /// description.
        code: Box<str>,
    },
    /// There was no answer that can be used: trying again later helps.
    #[error(transparent)]
    Unavailable(#[from] EndpointError),
}

/// What is wrong with the token endpoint.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EndpointError {
    /// No answer came.
    #[error("the token endpoint cannot be reached")]
    Unreachable(#[source] Arc<dyn Error + Send + Sync>),
    /// No answer came in time.
    #[error("the token endpoint did not answer in time")]
    TimedOut,
    /// The answer broke off.
    #[error("the answer of the token endpoint broke off")]
    Truncated,
    /// The answer is more than 1 MiB.
    #[error("the answer of the token endpoint is too large")]
    TooLarge,
    /// A redirect, which is never followed: it would carry a secret elsewhere.
    #[error("the token endpoint redirects")]
    Redirect,
    /// An HTTP status that says nothing of the token.
    #[error("the token endpoint answered with status {0}")]
    Status(StatusCode),
    /// It says itself that it cannot answer now.
    #[error("the token endpoint reports a fault of its own")]
    ServerError,
    /// Something else than JSON, an HTML page for example.
    #[error("the token endpoint did not answer with JSON")]
    NotJson,
    /// JSON, but no answer of a token endpoint.
    #[error("the token endpoint's answer is malformed")]
    Malformed,
    /// No access token, or one that no header can carry.
    #[error("the token endpoint's answer has no usable access token")]
    NoToken,
    /// A token that is no bearer token, or no access token.
    #[error("the token endpoint gave out a token of the wrong type")]
    WrongType,
}

impl EndpointError {
    /// The same in fixed words, which may be shown to anybody.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "the token endpoint cannot be reached",
            Self::TimedOut => "the token endpoint did not answer in time",
            Self::Truncated
            | Self::TooLarge
            | Self::Status(_)
            | Self::ServerError
            | Self::Redirect => "the token endpoint failed",
            Self::NotJson | Self::Malformed | Self::NoToken | Self::WrongType => {
                "the token endpoint's answer is no token"
            }
        }
    }
}

impl From<&ExchangeError> for CredentialFault {
    fn from(fault: &ExchangeError) -> Self {
        match fault {
            ExchangeError::Rejected { code } => Self::Refused { reason: code.clone() },
            ExchangeError::Unavailable(error) => Self::Unavailable { reason: error.reason() },
        }
    }
}
