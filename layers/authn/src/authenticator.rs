//! The authenticator trait.

use std::pin::Pin;
use std::sync::Arc;

use http::HeaderMap;
use vmcp_core::Identity;

use crate::AuthError;

/// Authenticates callers by the headers of their requests.
///
/// Implemented by closures from headers to a future, and by [`BearerAuthenticator`](crate::BearerAuthenticator),
/// [`LocalAuthenticator`](crate::LocalAuthenticator) and [`AnonymousAuthenticator`](crate::AnonymousAuthenticator).
pub trait Authenticator: Send + Sync + 'static {
    /// Authenticates without waiting, and without allocating a future. `None` requires a call of
    /// [`authenticate`](Authenticator::authenticate).
    fn try_now(&self, headers: &HeaderMap) -> Option<Result<Identity, AuthError>> {
        _ = headers;
        None
    }

    /// Authenticates the caller.
    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> AuthenticationFuture<'a>;
}

/// Future of [`Authenticator::authenticate`] and [`TokenVerifier::verify`](crate::TokenVerifier::verify).
pub type AuthenticationFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Identity, AuthError>> + Send + 'a>>;

impl<F, T> Authenticator for F
where
    F: Fn(&HeaderMap) -> T + Send + Sync + 'static,
    T: Future<Output = Result<Identity, AuthError>> + Send + 'static,
{
    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> AuthenticationFuture<'a> {
        Box::pin(self(headers))
    }
}

impl<T: Authenticator + ?Sized> Authenticator for Arc<T> {
    fn try_now(&self, headers: &HeaderMap) -> Option<Result<Identity, AuthError>> {
        (**self).try_now(headers)
    }

    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> AuthenticationFuture<'a> {
        (**self).authenticate(headers)
    }
}
