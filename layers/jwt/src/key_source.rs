//! Where the keys come from.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use crate::KeySet;

/// Gives a [`Verifier`](crate::Verifier) the issuer's keys.
///
/// The crate `vmcp-jwks` has one that fetches them. A closure hands over keys of the same process,
/// such as those of an authorization server that runs beside the verifier; `Arc<KeySet>` is a fixed
/// set.
pub trait KeySource: Send + Sync + 'static {
    /// The keys, if they are at hand. Asked for every token, so it must be quick.
    fn current(&self) -> Option<Arc<KeySet>>;

    /// The keys, waiting for them: because there were none at hand, or because a token names a key
    /// that is not in the set `lacking`. The answer can be that same set.
    ///
    /// # Errors
    /// They cannot be had now.
    fn load(&self, lacking: Option<Arc<KeySet>>) -> KeysFuture;
}

/// The answer of [`KeySource::load`].
pub type KeysFuture = Pin<Box<dyn Future<Output = Result<Arc<KeySet>, KeySourceError>> + Send>>;

/// Why keys cannot be had. Trying again later can help; what is wrong is the issuer's, or the
/// configuration's, never the token's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySourceError {
    /// No connection, or it broke off, or an address or redirect that is not followed.
    #[error("the issuer cannot be reached")]
    Unreachable,
    /// No answer in time.
    #[error("the issuer does not answer in time")]
    TooSlow,
    /// A status other than 200.
    #[error("the issuer answers with status {0}")]
    Status(u16),
    /// The answer is larger than [`MAX_KEY_SET_SIZE`](crate::MAX_SET).
    #[error("the issuer's answer is too large")]
    TooLarge,
    /// The answer is no metadata document, or no key set.
    #[error("the issuer's answer is malformed")]
    Malformed,
    /// The metadata names another issuer (RFC 8414 section 3.3).
    #[error("the issuer's metadata is of another issuer")]
    WrongIssuer,
    /// The set has no key that could verify a token.
    #[error("the issuer publishes no usable key")]
    NoUsableKey,
}

impl KeySource for Arc<KeySet> {
    fn current(&self) -> Option<Arc<KeySet>> {
        Some(Self::clone(self))
    }

    fn load(&self, _: Option<Arc<KeySet>>) -> KeysFuture {
        Box::pin(ready(Ok(Self::clone(self))))
    }
}

impl<F> KeySource for F
where
    F: Fn() -> Arc<KeySet> + Send + Sync + 'static,
{
    fn current(&self) -> Option<Arc<KeySet>> {
        Some(self())
    }

    fn load(&self, _: Option<Arc<KeySet>>) -> KeysFuture {
        Box::pin(ready(Ok(self())))
    }
}
