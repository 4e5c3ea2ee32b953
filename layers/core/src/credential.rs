//! Why a request to a backend could not be given its credentials.

use crate::{Backend, BoxError};

/// What every credential layer fails with, in a [`BoxError`]. The request was not sent.
///
/// A credential error says nothing of the backend's health: a circuit breaker takes it as neutral.
#[derive(Debug, thiserror::Error)]
#[error("no credentials for backend {}: {fault}", .backend.name())]
pub struct CredentialError {
    /// The backend that was to be reached.
    pub backend: Backend,
    /// Why.
    pub fault: CredentialFault,
    /// More for the log. Without secrets, and never for the client.
    #[source]
    pub source: Option<BoxError>,
}

/// Who is at fault, and what helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialFault {
    /// The strategy needs an authenticated caller, and there is none.
    #[error("the caller is not authenticated")]
    NoCaller,
    /// The caller has no usable token of an upstream provider: logging in anew helps.
    #[error("the caller has no usable token of provider {provider}")]
    NoUpstreamToken {
        /// The provider.
        provider: Box<str>,
    },
    /// The authority refused the caller: nobody can help but its operator.
    #[error("the caller was refused: {reason}")]
    Refused {
        /// An error code such as `invalid_grant`, or fixed words. Never text of the authority.
        reason: Box<str>,
    },
    /// The request itself cannot be given any, such as one that is too large to be signed: whoever sent it
    /// has to change it.
    #[error("the request cannot be given credentials: {reason}")]
    Request {
        /// In fixed words.
        reason: &'static str,
    },
    /// The authority does not answer, or answers nonsense: trying again later helps.
    #[error("the credentials cannot be had at the moment: {reason}")]
    Unavailable {
        /// In fixed words.
        reason: &'static str,
    },
}
