//! Error of a request to a backend whose credentials are unavailable.

use crate::{Backend, BoxError};

/// Error of every credential layer, in a [`BoxError`]. The request was not sent.
///
/// A credential error says nothing of the backend's health: a circuit breaker takes it as neutral.
#[derive(Debug, thiserror::Error)]
#[error("no credentials for backend {}: {kind}", .backend.name())]
pub struct CredentialError {
    /// The backend that was to be reached.
    pub backend: Backend,
    /// The cause.
    pub kind: CredentialErrorKind,
    /// More for the log. Without secrets, and never for the client.
    #[source]
    pub source: Option<BoxError>,
}

/// Kind of a [`CredentialError`], by the party that can correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialErrorKind {
    /// The strategy needs an authenticated caller, and there is none.
    #[error("the caller is not authenticated")]
    NoCaller,
    /// The caller has no usable token of an upstream provider: the caller has to log in again.
    #[error("the caller has no usable token of provider {provider}")]
    NoUpstreamToken {
        /// The provider.
        provider: Box<str>,
    },
    /// The authority rejected the caller: only its operator can change that.
    #[error("the caller was refused: {reason}")]
    Rejected {
        /// An error code such as `invalid_grant`, or fixed words. Never text of the authority.
        reason: Box<str>,
    },
    /// The request cannot carry credentials, such as one that is too large to be signed: the client has to change it.
    #[error("the request cannot be given credentials: {reason}")]
    Request {
        /// In fixed words.
        reason: &'static str,
    },
    /// The authority does not respond, or its response is invalid: a retry may succeed.
    #[error("the credentials are unavailable: {reason}")]
    Unavailable {
        /// In fixed words.
        reason: &'static str,
    },
}
