//! Why it is not known what a token is worth, or known that it is worth nothing.

use http::StatusCode;
use vmcp_core::BoxError;
use vmcp_jwt::TokenError;

/// Why an endpoint cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointUrlError {
    /// It is no absolute `http` or `https` URL without user info and fragment.
    #[error(
        "the introspection URL must be an absolute http or https URL without user info and fragment"
    )]
    Url,
}

/// Why [`IntrospectionClient::introspect`](crate::Introspection::introspect) did not accept a token. Nothing
/// of the token is in it.
#[derive(Debug, thiserror::Error)]
pub enum IntrospectionError {
    /// It expired, was revoked or never was: which of them is not told apart.
    #[error("the token is not active")]
    Inactive,
    /// It is active, but not for here.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Nobody can tell: trying again later helps.
    #[error("the token cannot be introspected: {0}")]
    Endpoint(#[from] EndpointError),
}

/// Why there is no usable answer. The endpoint is at fault, or the way to it, never the token.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// No connection, or it broke off, or an address that is not connected to.
    #[error("the endpoint cannot be reached")]
    Unreachable(#[source] BoxError),
    /// No whole answer within 5 s.
    #[error("the endpoint does not answer in time")]
    TooSlow,
    /// Status 401: the client id or the secret is wrong.
    #[error("the endpoint refuses the credentials that it is asked with")]
    Unauthorized,
    /// Another status than 200, redirects among them.
    #[error("the endpoint answers with status {0}")]
    Status(StatusCode),
    /// The answer is larger than 64 KiB.
    #[error("the endpoint's answer is too large")]
    TooLarge,
    /// The answer is no introspection response: no JSON object, a member twice, no `active`.
    #[error("the endpoint's answer is no introspection response")]
    Malformed,
}
