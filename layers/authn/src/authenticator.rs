//! Who decides who is calling.

use std::pin::Pin;
use std::sync::Arc;

use http::HeaderMap;
use vmcp_core::Identity;

use crate::AuthError;

/// Tells from a request's headers who is calling.
///
/// A closure from headers to a future of the answer is one. [`BearerAuthenticator`](crate::Bearer),
/// [`LocalAuthenticator`](crate::Local) and [`AnonymousAuthenticator`](crate::Anonymous) are ready-made.
pub trait Authenticator: Send + Sync + 'static {
    /// The answer, where it takes no waiting: then nothing is allocated for the wait. `None` asks for
    /// [`authenticate`](Authenticate::authenticate).
    fn try_now(&self, headers: &HeaderMap) -> Option<Result<Identity, AuthError>> {
        _ = headers;
        None
    }

    /// The answer.
    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> AuthenticationFuture<'a>;
}

/// The answer of [`Authenticator::authenticate`] and [`TokenVerifier::inspect`](crate::Inspect::inspect).
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
