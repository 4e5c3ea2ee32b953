//! Errors of token requests.

use std::error::Error;
use std::sync::Arc;

use http::StatusCode;
use vmcp_core::CredentialErrorKind;

/// The error of a token request. Cheap to clone for concurrent callers of one request.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The authorization server rejected the request. A retry does not help.
    #[error("the authorization server rejected the request: {code}")]
    Rejected {
        /// The error code (RFC 6749 section 5.2, RFC 8693 section 2.2.2), or a fixed text. Never a description.
        code: Box<str>,
    },
    /// There was no usable response. A retry may succeed.
    #[error(transparent)]
    Unavailable(#[from] EndpointError),
}

/// The error of a token endpoint without a usable response.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EndpointError {
    /// The connection failed.
    #[error("failed to reach the token endpoint")]
    Unreachable(#[source] Arc<dyn Error + Send + Sync>),
    /// The response did not arrive in time.
    #[error("the token endpoint timed out")]
    TimedOut,
    /// The response was truncated.
    #[error("the response of the token endpoint was truncated")]
    Truncated,
    /// The response is larger than 1 MiB.
    #[error("the response of the token endpoint is too large")]
    TooLarge,
    /// A redirect, which is not followed: it would disclose the secret.
    #[error("the token endpoint returned a redirect")]
    Redirect,
    /// Another HTTP status.
    #[error("the token endpoint returned status {0}")]
    Status(StatusCode),
    /// An OAuth error that reports a failure of the server.
    #[error("the token endpoint reported a server error")]
    ServerError,
    /// The response is not JSON, but for example an HTML page.
    #[error("the response of the token endpoint is not JSON")]
    NotJson,
    /// The response is not a valid token response.
    #[error("the response of the token endpoint is malformed")]
    Malformed,
    /// The response contains no access token, or one that is not a valid header value.
    #[error("the response of the token endpoint contains no usable access token")]
    NoToken,
    /// The token is not a bearer token, or not an access token.
    #[error("the token endpoint returned a token of the wrong type")]
    WrongType,
}

impl EndpointError {
    /// Returns the error as a fixed text, which may be sent to clients.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "failed to reach the token endpoint",
            Self::TimedOut => "the token endpoint timed out",
            Self::Truncated
            | Self::TooLarge
            | Self::Status(_)
            | Self::ServerError
            | Self::Redirect => "the token endpoint failed",
            Self::NotJson | Self::Malformed | Self::NoToken | Self::WrongType => {
                "the token endpoint returned no token"
            }
        }
    }
}

impl From<&ExchangeError> for CredentialErrorKind {
    fn from(fault: &ExchangeError) -> Self {
        match fault {
            ExchangeError::Rejected { code } => Self::Rejected { reason: code.clone() },
            ExchangeError::Unavailable(error) => Self::Unavailable { reason: error.reason() },
        }
    }
}
