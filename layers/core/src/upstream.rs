//! Tokens that upstream identity providers gave out for a caller.

use std::pin::Pin;
use std::time::SystemTime;

use secrecy::SecretString;

use crate::Fingerprint;

/// Tokens of a caller, by provider. The embedded authorization server stores and refreshes them; it contacts a provider only
/// for a requested token.
pub trait UpstreamTokens: Send + Sync {
    /// Returns a token of `provider` that is valid now.
    fn token<'a>(&'a self, provider: &'a str, kind: UpstreamKind) -> UpstreamFuture<'a>;

    /// Refreshes the token `rejected` of `provider`, which [`token`](Self::token) returned and a backend rejected before its
    /// expiry. Among concurrent callers and replicas with the same token, one refreshes it.
    ///
    /// # Errors
    /// [`UpstreamError::Unavailable`] by default, and [`UpstreamError::NotLinked`] if the provider revoked the grant.
    fn refresh<'a>(
        &'a self,
        provider: &'a str,
        kind: UpstreamKind,
        rejected: &'a SecretString,
    ) -> UpstreamFuture<'a> {
        _ = (provider, kind, rejected);
        Box::pin(std::future::ready(Err(UpstreamError::Unavailable)))
    }

    /// Returns a key of the session that the tokens belong to. Two sessions of one caller may have tokens of
    /// different accounts.
    ///
    /// The default is `None`: a caller has the same tokens in all sessions.
    fn session(&self) -> Option<Fingerprint> {
        None
    }

    /// Returns a key of what the session has linked now: another one after a provider was linked or unlinked, on any
    /// replica, within a second or so. `None` where that is not known at the moment.
    ///
    /// The default is `None`.
    fn links(&self) -> LinksFuture<'_> {
        Box::pin(std::future::ready(None))
    }
}

/// Future of [`UpstreamTokens::links`].
pub type LinksFuture<'a> = Pin<Box<dyn Future<Output = Option<Fingerprint>> + Send + 'a>>;

/// Future of [`UpstreamTokens::token`] and [`UpstreamTokens::refresh`].
pub type UpstreamFuture<'a> =
    Pin<Box<dyn Future<Output = Result<UpstreamToken, UpstreamError>> + Send + 'a>>;

/// Kind of a provider's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamKind {
    /// The access token.
    Access,
    /// The id token (OpenID Connect). It may be past its expiry.
    Id,
}

/// Token of an upstream provider.
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
    NotLinked,
    /// The store or the provider does not respond: a retry may succeed.
    #[error("tokens of this provider are unavailable")]
    Unavailable,
}
