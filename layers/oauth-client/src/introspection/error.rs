//! Errors of token introspection.

use http::StatusCode;
use vmcp_core::BoxError;
use vmcp_jwt::TokenError;

/// The error of an invalid endpoint URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointUrlError {
    /// The URL is not an absolute `http` or `https` URL, or has user info or a fragment.
    #[error(
        "the introspection URL must be an absolute http or https URL without user info and fragment"
    )]
    Url,
}

/// The error of [`IntrospectionClient::introspect`](crate::introspection::IntrospectionClient::introspect). Contains no part of the
/// token.
#[derive(Debug, thiserror::Error)]
pub enum IntrospectionError {
    /// The token is expired, revoked or unknown; the endpoint does not tell which.
    #[error("the token is not active")]
    Inactive,
    /// The token is active but invalid for this server.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The endpoint returned no usable response. A retry may succeed.
    #[error("failed to introspect the token: {0}")]
    Endpoint(#[from] EndpointError),
}

/// The error of an endpoint without a usable response. The token is not at fault.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The connection failed, or its address is not allowed.
    #[error("failed to reach the introspection endpoint")]
    Unreachable(#[source] BoxError),
    /// The response did not arrive within 5 s.
    #[error("the introspection endpoint timed out")]
    TooSlow,
    /// Status 401: the client id or the secret is wrong.
    #[error("the introspection endpoint rejected the client's credentials")]
    Unauthorized,
    /// A status other than 200, redirects included.
    #[error("the introspection endpoint returned status {0}")]
    Status(StatusCode),
    /// The response is larger than 64 KiB.
    #[error("the introspection response is too large")]
    TooLarge,
    /// The response is not a JSON object, has duplicate members, or lacks `active`.
    #[error("the introspection response is malformed")]
    Malformed,
}
