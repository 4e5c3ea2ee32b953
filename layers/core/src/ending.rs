//! End of a session before its token expires.

use std::pin::Pin;

/// Source of the end of a caller's session before the token expires, by revocation or logout.
///
/// Closures that return a future implement it.
pub trait Ending: Send + Sync {
    /// Returns a future that is ready once the session is over; at once if it is already.
    fn ended(&self) -> EndingFuture;

    /// Returns `true` if the session is known to be over, without waiting. Closures return `false`.
    fn has_ended(&self) -> bool {
        false
    }
}

/// Future of [`Ending::ended`].
pub type EndingFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F, T> Ending for F
where
    F: Fn() -> T + Send + Sync,
    T: Future<Output = ()> + Send + 'static,
{
    fn ended(&self) -> EndingFuture {
        Box::pin(self())
    }
}
