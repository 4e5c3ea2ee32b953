//! The authorization server: what it is made of, and its routes.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use vmcp_auth_store::{ProviderIssuer, ProviderName, SessionId, Store, Timestamp};
use vmcp_core::{Clock, HttpClient, RateLimiter, UpstreamTokens};
use vmcp_jwt::{KeySet, Verifier};

use crate::cimd::Cimd;
use crate::error::Fault;
use crate::metadata::Documents;
use crate::own::OwnTokens;
use crate::page::Pages;
use crate::revoked_sessions::RevokedSessions;
use crate::rows::{Rows, SessionTokens};
use crate::{Observer, ProviderFault, Settings, StartFault, Upstream};

/// An OAuth 2.1 and OpenID Connect issuer that lets its users in through upstream identity providers. A clone is
/// the same server.
#[derive(Clone)]
pub struct AuthServer(Arc<Inner>);

/// How much a server holds in its process. Each is bounded, and what is in it expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Metadata documents of clients, and failures to fetch one.
    pub documents: usize,
    /// Addresses whose requests are counted, once for each kind of endpoint.
    pub addresses: usize,
    /// Sessions that were revoked before their access tokens expire.
    pub revoked: usize,
    /// Upstream tokens that are at hand.
    pub rows: usize,
    /// Upstream tokens whose provider is not asked again for a while, since it could not be, or was just now.
    pub left_alone: usize,
}

/// What all endpoints share.
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    /// In the order in which users log in at them.
    pub(crate) upstreams: Vec<Leg>,
    pub(crate) cimd: Option<Cimd>,
    pub(crate) documents: Documents,
    pub(crate) pages: Pages,
    pub(crate) limits: Limits,
    pub(crate) revoked: Arc<RevokedSessions>,
    /// One for each audience, in order.
    pub(crate) verifiers: Vec<Verifier<Arc<KeySet>>>,
    pub(crate) rows: Rows,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// One upstream provider, with its name as the store has it.
#[derive(Clone, Debug)]
pub(crate) struct Leg {
    /// Its place in the order.
    pub(crate) at: usize,
    pub(crate) name: ProviderName,
    /// The provider itself, whatever its name.
    pub(crate) issuer: ProviderIssuer,
    pub(crate) provider: Arc<dyn Upstream>,
    /// Whether browsers come back to another origin than that of the authorization endpoint, which alone their
    /// cookie is sent to.
    pub(crate) is_elsewhere: bool,
}

/// Who asks too often.
#[derive(Debug)]
pub(crate) struct Limits {
    pages: RateLimiter,
    tokens: RateLimiter,
    registration: RateLimiter,
}

/// What kind of endpoint is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    Page,
    Token,
    Registration,
}

impl AuthServer {
    /// A server by `settings` that keeps its state in `store` and lets users in through `upstreams`, one after
    /// the other, the first of which says who they are.
    ///
    /// # Errors
    /// The settings cannot work together.
    pub fn new(
        settings: Settings,
        store: Arc<dyn Store>,
        upstreams: Vec<Arc<dyn Upstream>>,
        clock: Clock,
    ) -> Result<Self, StartFault> {
        settings.check()?;
        let upstreams = legs(&settings, upstreams)?;
        let rates = settings.rates;
        Ok(Self(Arc::new(Inner {
            documents: Documents::new(&settings, false),
            pages: Pages::new(&settings.display_name),
            limits: Limits {
                pages: RateLimiter::new(rates.pages),
                tokens: RateLimiter::new(rates.tokens),
                registration: RateLimiter::new(rates.registration),
            },
            revoked: Arc::default(),
            rows: Rows::new(),
            verifiers: crate::own::verifiers(&settings, &clock),
            cimd: None,
            observer: None,
            settings,
            store,
            clock,
            upstreams,
        })))
    }

    /// Lets clients be known by the URL of their metadata document, which is fetched with `http`: that must
    /// reach no private addresses, and follow no redirects. To be called before the server is cloned.
    #[must_use]
    pub fn client_documents(mut self, http: impl Into<HttpClient>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.documents = Documents::new(&inner.settings, true);
            inner.cimd = Some(Cimd::new(http.into()));
        }
        self
    }

    /// Tells `observer` what happens. To be called before the server is cloned.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.observer = Some(observer);
        }
        self
    }

    /// Shares the set of revoked sessions with `before`, in whose place this server comes: neither misses a session
    /// that the other one ends, and hooks of `before` are called for both. To be called before the server is cloned.
    #[must_use]
    pub fn sharing_revocations_with(mut self, before: &Self) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.revoked = Arc::clone(&before.0.revoked);
        }
        self
    }

    /// Refuses providers whose names stand for other ones in the store. To be called before the server is used:
    /// people and tokens that are kept under the other issuers stay there, out of reach.
    ///
    /// # Errors
    /// The store cannot be asked, or it has people or tokens of another provider of the same name.
    pub async fn check_providers(&self) -> Result<(), ProviderFault> {
        let legs = &self.0.upstreams;
        let wanted: Vec<_> =
            legs.iter().map(|leg| (leg.name.clone(), leg.issuer.clone())).collect();
        let others = self.0.store.conflicting_issuers(&wanted).await?;
        let Some((provider, known)) = others.into_iter().next() else { return Ok(()) };
        let wanted = wanted.into_iter().find(|(name, _)| *name == provider);
        let configured = wanted.map_or_else(|| known.clone(), |(_, issuer)| issuer);
        Err(ProviderFault::Changed { provider, known, configured })
    }

    /// The endpoints, at the paths that the issuer's address and the providers' redirect URIs say. The address
    /// of whoever asks is taken from a `SocketAddr` in the request's extensions, or axum's `ConnectInfo`.
    pub fn router(&self) -> Router {
        crate::router::router(&self.0)
    }

    /// Verifies the tokens that this server issued for the resource `audience`, without asking anybody. `None`
    /// if it issues none for it.
    #[must_use]
    pub fn verifier(&self, audience: &str) -> Option<OwnTokens> {
        OwnTokens::new(&self.0, audience)
    }

    /// The tokens of upstream providers that belong to a session. Nobody is asked before one is wanted.
    #[must_use]
    pub fn tokens(&self, session: SessionId) -> Arc<dyn UpstreamTokens> {
        Arc::new(SessionTokens::new(Arc::clone(&self.0), session))
    }

    /// Hears of what was revoked on other replicas, for as long as the future is polled. To be spawned once, before
    /// requests are answered: from this call on, tokens are refused as [`OwnFault::Unread`](crate::OwnFault::Unread)
    /// until the store was read, unless a server did that whose revocations are [shared](Self::sharing_revocations_with).
    pub fn watch(self) -> impl Future<Output = ()> + Send {
        self.0.revoked.begin_reading();
        async move { crate::own::watch(&self.0).await }
    }

    /// Waits until the store was read that [`watch`](Self::watch) listens to. Ready at once where nothing does.
    pub async fn revocations_read(&self) {
        self.0.revoked.completed().await;
    }

    /// Ends a session: its refresh token, its access tokens and its upstream tokens.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn end_session(&self, session: SessionId) -> Result<(), vmcp_auth_store::StoreError> {
        self.0.end_session(session).await
    }

    /// Whether a session was ended before its time, as far as it is known here.
    #[must_use]
    pub fn has_ended(&self, session: SessionId) -> bool {
        self.0.revoked.contains(session)
    }

    /// Tells `hook` of each session that ends before its time, on this replica or, with [`AuthServer::watch`],
    /// on another one: what was opened with its tokens ends with it. It is called in passing, so it must be
    /// quick.
    pub fn on_end(&self, hook: impl Fn(SessionId) + Send + Sync + 'static) {
        self.0.revoked.subscribe(Box::new(hook));
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// How much this process holds beside the store, whose own numbers are `Store::counts`: gauges.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let Inner { cimd, limits, revoked, rows, .. } = &*self.0;
        let Limits { pages, tokens, registration } = limits;
        Sizes {
            documents: cimd.as_ref().map_or(0, Cimd::len),
            addresses: [pages, tokens, registration].map(RateLimiter::len).iter().sum(),
            revoked: revoked.len(),
            rows: rows.len(),
            left_alone: rows.left_alone(),
        }
    }
}

#[cfg(test)]
impl AuthServer {
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    pub(crate) fn legs(&self) -> &[Leg] {
        &self.0.upstreams
    }
}

impl fmt::Debug for AuthServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthServer")
            .field("issuer", &self.0.settings.issuer)
            .field("upstreams", &self.0.upstreams)
            .finish_non_exhaustive()
    }
}

// === impl Inner ===

impl Inner {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now().into()
    }

    /// The issuer's identifier.
    pub(crate) fn issuer(&self) -> &str {
        self.settings.issuer.as_str()
    }

    /// The provider of this name, and its place in the order.
    pub(crate) fn upstream(&self, name: &ProviderName) -> Option<(usize, &Leg)> {
        self.upstreams.iter().enumerate().find(|(_, leg)| leg.name == *name)
    }

    /// Counts a request, and refuses it if its address asks too often.
    pub(crate) fn admit(&self, asked: Asked, address: IpAddr) -> Result<(), Fault> {
        let limiter = match asked {
            Asked::Page => &self.limits.pages,
            Asked::Token => &self.limits.tokens,
            Asked::Registration => &self.limits.registration,
        };
        limiter.admit(address, self.clock.now()).map_err(Fault::too_many)
    }

    pub(crate) async fn end_session(
        &self,
        session: SessionId,
    ) -> Result<(), vmcp_auth_store::StoreError> {
        self.store.end_session(&session).await?;
        self.forget(session);
        Ok(())
    }

    /// Forgets in this process what it knows of a session that ended.
    pub(crate) fn forget(&self, session: SessionId) {
        self.revoked.insert(session, self.clock.now());
        for leg in &self.upstreams {
            self.rows.forget(session, &leg.name);
        }
    }
}

/// Names the providers, and refuses those whose redirect URI no route or cookie can serve.
fn legs(settings: &Settings, upstreams: Vec<Arc<dyn Upstream>>) -> Result<Vec<Leg>, StartFault> {
    let taken: BTreeSet<String> = crate::router::fixed_paths(settings).into_iter().collect();
    let (leaves, served) = (settings.front().origin(), settings.origins());
    let back = format!("{}/", settings.return_path());
    let mut legs: Vec<Leg> = Vec::new();
    for provider in upstreams {
        let called: Box<str> = provider.name().into();
        let name = ProviderName::new(&*called).map_err(|_| StartFault::Name(called.clone()))?;
        if legs.iter().any(|leg| leg.name == name) {
            return Err(StartFault::Twice(called));
        }
        let issuer = ProviderIssuer::new(provider.issuer_id());
        let issuer = issuer.map_err(|_| StartFault::Issuer(called.clone()))?;
        let uri = provider.redirect_uri();
        let callback =
            url::Url::parse(&uri.to_string()).map(|url| url.origin().ascii_serialization());
        let callback = callback.unwrap_or_default();
        if !served.contains(&callback) {
            let (callback, leaves) = (callback.into(), leaves.into());
            return Err(StartFault::Callback { provider: called, callback, leaves });
        }
        let here = uri.path();
        let odd =
            here.split('/').any(|part| part.starts_with([':', '*']) || part.contains(['{', '}']));
        if odd || taken.contains(here) || here.starts_with(&back) {
            return Err(StartFault::Path { provider: called, path: here.into() });
        }
        let is_elsewhere = callback != leaves;
        legs.push(Leg { at: legs.len(), name, issuer, provider, is_elsewhere });
    }
    if legs.is_empty() { Err(StartFault::NoUpstream) } else { Ok(legs) }
}
