//! What exchanges tokens, and what comes of it.

use std::pin::Pin;
use std::time::SystemTime;

use http::HeaderValue;
use secrecy::SecretString;
use vmcp_token_endpoint::{Bearer, Grant};

use crate::{ExchangeFault, IllegalToken, Subject, TokenEndpoint};

/// Exchanges a caller's token for one that the backend accepts. Closures that take a [`Subject`] and
/// return such a future do so too.
pub trait Exchange: Send + Sync + 'static {
    /// Gives the token. How long it may take is for the exchange to bound.
    type Future: Future<Output = Result<Exchanged, ExchangeFault>> + Send + 'static;

    /// The backend's token for the caller.
    fn exchange(&self, subject: Subject) -> Self::Future;

    /// The gateway's own token, for probes and refreshes. `None`: it has none, and they go without.
    fn own(&self) -> Option<Self::Future> {
        None
    }

    /// The backend did not take `token`: it is not to be given out again. Whether another one can
    /// be had by asking once more.
    fn refused(&self, token: &Exchanged) -> bool {
        _ = token;
        false
    }
}

/// A token for a backend, prepared for the header. Never shown by `Debug`; cheap to clone.
#[derive(Clone, Debug)]
pub struct Exchanged {
    bearer: Bearer,
    /// Under which key it is kept.
    pub(crate) kept: Option<crate::cached::Key>,
}

impl<F, Fut> Exchange for F
where
    F: Fn(Subject) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Exchanged, ExchangeFault>> + Send + 'static,
{
    type Future = Fut;

    fn exchange(&self, subject: Subject) -> Fut {
        self(subject)
    }
}

/// At a token endpoint; the gateway's own token by the client credentials grant, if the client has a
/// secret. Asks each time: see [`Cached`](crate::Cached).
impl Exchange for TokenEndpoint {
    type Future = Pin<Box<dyn Future<Output = Result<Exchanged, ExchangeFault>> + Send>>;

    fn exchange(&self, subject: Subject) -> Self::Future {
        let asked = self.ask(&Grant::Exchange { subject_token: subject.expose_token() });
        Box::pin(async { Ok(asked.await?.into()) })
    }

    fn own(&self) -> Option<Self::Future> {
        let asked = self.has_secret().then(|| self.ask(&Grant::ClientCredentials))?;
        Some(Box::pin(async { Ok(asked.await?.into()) }))
    }
}

// === impl Exchanged ===

impl Exchanged {
    /// A bearer token (RFC 6750 section 2.1) and when it stops being valid, if that is known.
    ///
    /// # Errors
    /// No header can carry it.
    pub fn new(token: &SecretString, expires_at: Option<SystemTime>) -> Result<Self, IllegalToken> {
        Bearer::new(token, expires_at).map(Self::from)
    }

    /// `Bearer`, a space and the token; marked sensitive.
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

impl From<Bearer> for Exchanged {
    fn from(bearer: Bearer) -> Self {
        Self { bearer, kept: None }
    }
}
