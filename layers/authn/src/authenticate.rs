//! Who decides who is calling.

use std::pin::Pin;
use std::sync::Arc;

use http::HeaderMap;
use vmcp_core::Identity;

use crate::Refusal;

/// Tells from a request's headers who is calling.
///
/// A closure from headers to a future of the answer is one. [`Bearer`](crate::Bearer),
/// [`Local`](crate::Local) and [`Anonymous`](crate::Anonymous) are ready-made.
pub trait Authenticate: Send + Sync + 'static {
    /// The answer, where it takes no waiting: then nothing is allocated for the wait. `None` asks for
    /// [`authenticate`](Authenticate::authenticate).
    fn at_once(&self, headers: &HeaderMap) -> Option<Result<Identity, Refusal>> {
        _ = headers;
        None
    }

    /// The answer.
    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> AuthenticateFuture<'a>;
}

/// The answer of [`Authenticate::authenticate`] and [`Inspect::inspect`](crate::Inspect::inspect).
pub type AuthenticateFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Identity, Refusal>> + Send + 'a>>;

impl<F, T> Authenticate for F
where
    F: Fn(&HeaderMap) -> T + Send + Sync + 'static,
    T: Future<Output = Result<Identity, Refusal>> + Send + 'static,
{
    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> AuthenticateFuture<'a> {
        Box::pin(self(headers))
    }
}

impl<T: Authenticate + ?Sized> Authenticate for Arc<T> {
    fn at_once(&self, headers: &HeaderMap) -> Option<Result<Identity, Refusal>> {
        (**self).at_once(headers)
    }

    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> AuthenticateFuture<'a> {
        (**self).authenticate(headers)
    }
}
