//! What has to end before a token expires.

use std::pin::Pin;

/// Tells when a caller's session is over although the token has not expired: it was revoked, or somebody
/// logged out.
///
/// A closure that makes a future is one.
pub trait Ending: Send + Sync {
    /// Ready once the session is over; at once if it is already.
    fn ended(&self) -> EndingFuture;

    /// Whether it is over already, as far as that can be said without waiting. A closure cannot say: `false`.
    fn has_ended(&self) -> bool {
        false
    }
}

/// The answer of [`Ending::ended`].
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
