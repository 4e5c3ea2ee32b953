//! What exchanges tokens, and what comes of it.

use std::pin::Pin;
use std::time::SystemTime;

use http::HeaderValue;
use secrecy::SecretString;
use vmcp_token_endpoint::{BearerToken, Grant};

use crate::{ExchangeError, InvalidTokenError, Subject, TokenEndpoint};

/// Exchanges a caller's token for one that the backend accepts. Closures that take a [`Subject`] and
/// return such a future do so too.
pub trait Exchange: Send + Sync + 'static {
    /// Gives the token. How long it may take is for the exchange to bound.
    type Future: Future<Output = Result<AccessToken, ExchangeError>> + Send + 'static;

    /// The backend's token for the caller.
    fn exchange(&self, subject: Subject) -> Self::Future;

    /// The gateway's own token, for probes and refreshes. `None`: it has none, and they go without.
    fn client_credentials(&self) -> Option<Self::Future> {
        None
    }

    /// The backend did not take `token`: it is not to be given out again. Whether another one can
    /// be had by asking once more.
    fn invalidate(&self, token: &AccessToken) -> bool {
        _ = token;
        false
    }
}

/// A token for a backend, prepared for the header. Never shown by `Debug`; cheap to clone.
#[derive(Clone, Debug)]
pub struct AccessToken {
    bearer: BearerToken,
    /// Under which key it is kept.
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

/// At a token endpoint; the gateway's own token by the client credentials grant, if the client has a
/// secret. Asks each time: see [`CachedExchange`](crate::Cached).
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

// === impl Exchanged ===

impl AccessToken {
    /// A bearer token (RFC 6750 section 2.1) and when it stops being valid, if that is known.
    ///
    /// # Errors
    /// No header can carry it.
    pub fn new(
        token: &SecretString,
        expires_at: Option<SystemTime>,
    ) -> Result<Self, InvalidTokenError> {
        BearerToken::new(token, expires_at).map(Self::from)
    }

    /// `BearerToken`, a space and the token; marked sensitive.
    #[must_use]
    pub fn value(&self) -> &HeaderValue {
        self.bearer.value()
    }

    /// When it stops being valid, where the authorization server said so.
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
