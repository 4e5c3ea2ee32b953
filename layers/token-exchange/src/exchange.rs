//! The exchange trait and its result.

use std::pin::Pin;
use std::time::SystemTime;

use http::HeaderValue;
use secrecy::SecretString;
use vmcp_oauth_client::token_endpoint::{BearerToken, Grant};

use crate::{ExchangeError, InvalidTokenError, Subject, TokenEndpoint};

/// Exchanges a caller's token for one that the backend accepts. Implemented by closures that take a [`Subject`] and
/// return a future with the same output.
pub trait Exchange: Send + Sync + 'static {
    /// The future of a token. The exchange bounds its duration.
    type Future: Future<Output = Result<AccessToken, ExchangeError>> + Send + 'static;

    /// Returns the backend's token for the caller.
    fn exchange(&self, subject: Subject) -> Self::Future;

    /// Returns the gateway's own token, for probes and refreshes. Without one, they are sent without a token.
    fn client_credentials(&self) -> Option<Self::Future> {
        None
    }

    /// Invalidates `token`, which the backend rejected, and returns `true` if another exchange may provide a different
    /// one.
    fn invalidate(&self, token: &AccessToken) -> bool {
        _ = token;
        false
    }
}

/// Access token for a backend, prepared as a header value. Hidden in `Debug` output; cheap to clone.
#[derive(Clone, Debug)]
pub struct AccessToken {
    bearer: BearerToken,
    /// The cache key, if the token is cached.
    pub(crate) cache_key: Option<crate::token_cache::Key>,
}

impl<F, Fut> Exchange for F
where
    F: Fn(Subject) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<AccessToken, ExchangeError>> + Send + 'static,
{
    type Future = Fut;

    fn exchange(&self, subject: Subject) -> Fut {
        self(subject)
    }
}

/// Exchanges tokens at a token endpoint; the gateway's own token comes from the client credentials grant, if the client
/// has a secret. Sends a request each time: see [`CachedExchange`](crate::CachedExchange).
impl Exchange for TokenEndpoint {
    type Future = Pin<Box<dyn Future<Output = Result<AccessToken, ExchangeError>> + Send>>;

    fn exchange(&self, subject: Subject) -> Self::Future {
        let future = self.request_token(&Grant::Exchange { subject_token: subject.expose_token() });
        Box::pin(async { Ok(future.await?.into()) })
    }

    fn client_credentials(&self) -> Option<Self::Future> {
        let future = self.has_secret().then(|| self.request_token(&Grant::ClientCredentials))?;
        Some(Box::pin(async { Ok(future.await?.into()) }))
    }
}

// === impl AccessToken ===

impl AccessToken {
    /// Creates a bearer token (RFC 6750 section 2.1) with its expiry, if known.
    ///
    /// # Errors
    /// The token is not a valid header value.
    pub fn new(
        token: &SecretString,
        expires_at: Option<SystemTime>,
    ) -> Result<Self, InvalidTokenError> {
        BearerToken::new(token, expires_at).map(Self::from)
    }

    /// Returns `Bearer`, a space and the token; marked sensitive.
    #[must_use]
    pub fn value(&self) -> &HeaderValue {
        self.bearer.value()
    }

    /// Returns the expiry, if the authorization server stated one.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.bearer.expires_at()
    }
}

impl From<BearerToken> for AccessToken {
    fn from(bearer: BearerToken) -> Self {
        Self { bearer, cache_key: None }
    }
}
