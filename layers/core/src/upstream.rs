//! Tokens that upstream identity providers gave out for a caller.

use std::pin::Pin;
use std::time::SystemTime;

use secrecy::SecretString;

use crate::Fingerprint;

/// Tokens of a caller, by provider. The embedded authorization server stores and refreshes them; it contacts a provider only
/// for a requested token.
pub trait UpstreamTokens: Send + Sync {
    /// The token of `provider`, fresh enough to be used now.
    fn token<'a>(&'a self, provider: &'a str, kind: UpstreamKind) -> UpstreamFuture<'a>;

    /// Returns another token of `provider` than `refused`, which [`token`](Self::token) returned and a backend rejected
    /// before its expiry. Among concurrent callers and replicas with the same token, one refreshes it.
    ///
    /// # Errors
    /// [`UpstreamError::Unavailable`] by default, and [`UpstreamError::Absent`] if the provider revoked the grant.
    fn renewed<'a>(
        &'a self,
        provider: &'a str,
        kind: UpstreamKind,
        refused: &'a SecretString,
    ) -> UpstreamFuture<'a> {
        _ = (provider, kind, refused);
        Box::pin(std::future::ready(Err(UpstreamError::Unavailable)))
    }

    /// Returns a key of the session that the tokens belong to. Two sessions of one caller may have tokens of
    /// different accounts.
    ///
    /// Unless an implementation says otherwise a caller has the same tokens in all sessions: `None`.
    fn session(&self) -> Option<Fingerprint> {
        None
    }

    /// Returns a key of what the session has linked now: another one after a provider was linked or unlinked, on any
    /// replica, within a second or so. `None` where that is not known at the moment.
    ///
    /// Unless an implementation says otherwise it is never known.
    fn links(&self) -> LinksFuture<'_> {
        Box::pin(std::future::ready(None))
    }
}

/// The answer of [`UpstreamTokens::links`].
pub type LinksFuture<'a> = Pin<Box<dyn Future<Output = Option<Fingerprint>> + Send + 'a>>;

/// The answer of [`UpstreamTokens::token`].
pub type UpstreamFuture<'a> =
    Pin<Box<dyn Future<Output = Result<UpstreamToken, UpstreamError>> + Send + 'a>>;

/// Which of a provider's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamKind {
    /// The access token.
    Access,
    /// The id token (OpenID Connect). It may be past its expiry.
    Id,
}

/// A token of an upstream provider.
#[derive(Clone, Debug)]
pub struct UpstreamToken {
    /// The token.
    pub value: SecretString,
    /// When it stops being valid, where the provider said so.
    pub expires_at: Option<SystemTime>,
}

/// Error of a token that is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// The caller never linked the provider, or its grant is revoked: the caller has to log in again.
    #[error("there is no usable token of this provider: log in again")]
    Absent,
    /// The store or the provider does not answer: trying again later helps.
    #[error("tokens of this provider are unavailable")]
    Unavailable,
}
