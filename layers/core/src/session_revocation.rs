//! Revocation of a session before its token expires.

use std::pin::Pin;

/// Source of the revocation of a caller's session before the token expires, such as by logout.
///
/// Closures that return a future implement it.
pub trait SessionRevocation: Send + Sync {
    /// Returns a future that is ready once the session is revoked, immediately if it is already.
    fn revoked(&self) -> RevocationFuture;

    /// Returns `true` if the session is known to be revoked, without waiting. Closures return `false`.
    fn is_revoked(&self) -> bool {
        false
    }
}

/// Future of [`SessionRevocation::revoked`].
pub type RevocationFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F, T> SessionRevocation for F
where
    F: Fn() -> T + Send + Sync,
    T: Future<Output = ()> + Send + 'static,
{
    fn revoked(&self) -> RevocationFuture {
        Box::pin(self())
    }
}
