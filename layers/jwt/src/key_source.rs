//! Sources of verification keys.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use crate::KeySet;

/// Source of the issuer's keys for a [`Verifier`](crate::Verifier).
///
/// A [`JwksSource`](crate::JwksSource) fetches them. A closure provides the keys of an authorization server in the same process;
/// `Arc<KeySet>` is a fixed set.
pub trait KeySource: Send + Sync + 'static {
    /// Returns the cached keys, if there are any. Called for every token, so it must be fast.
    fn current(&self) -> Option<Arc<KeySet>>;

    /// Returns the keys after waiting for them, if none are cached or if a token names a key that the set `lacking`
    /// does not contain. The result may be that same set.
    ///
    /// # Errors
    /// The keys are unavailable.
    fn load(&self, lacking: Option<Arc<KeySet>>) -> KeysFuture;
}

/// Future of [`KeySource::load`].
pub type KeysFuture = Pin<Box<dyn Future<Output = Result<Arc<KeySet>, KeySourceError>> + Send>>;

/// The error of unavailable keys. The issuer or the configuration is at fault, never the token. A retry may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySourceError {
    /// The connection failed, or the address or redirect is not allowed.
    #[error("failed to reach the issuer")]
    Unreachable,
    /// The response did not arrive in time.
    #[error("the issuer timed out")]
    TooSlow,
    /// A status other than 200.
    #[error("the issuer returned status {0}")]
    Status(u16),
    /// The response is larger than [`MAX_KEY_SET_SIZE`](crate::MAX_KEY_SET_SIZE).
    #[error("the issuer's response is too large")]
    TooLarge,
    /// The response is not a metadata document or a key set.
    #[error("the issuer's response is malformed")]
    Malformed,
    /// The metadata contains another issuer (RFC 8414 section 3.3).
    #[error("the metadata names another issuer")]
    WrongIssuer,
    /// The key set contains no usable key.
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
