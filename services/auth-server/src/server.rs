//! Authorization server: its parts and its routes.

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

/// OAuth 2.1 and OpenID Connect issuer whose users log in at upstream identity providers. Clones share their state.
#[derive(Clone)]
pub struct AuthServer(Arc<Inner>);

/// Sizes of a server's in-process state. Each is bounded, and all entries expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Metadata documents of clients, and failed fetches.
    pub documents: usize,
    /// Addresses with a rate limit, counted once for each kind of endpoint.
    pub addresses: usize,
    /// Sessions that were revoked before their access tokens expire.
    pub revoked: usize,
    /// Cached rows of upstream tokens.
    pub rows: usize,
    /// Rows whose provider is not asked again for a while, after a failure or a recent refresh.
    pub left_alone: usize,
}

/// State shared by all endpoints.
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    /// Providers in the order in which users log in.
    pub(crate) upstreams: Vec<Leg>,
    pub(crate) cimd: Option<Cimd>,
    pub(crate) documents: Documents,
    pub(crate) pages: Pages,
    pub(crate) limits: Limits,
    pub(crate) revoked: Arc<RevokedSessions>,
    /// One verifier for each audience, in order.
    pub(crate) verifiers: Vec<Verifier<Arc<KeySet>>>,
    pub(crate) rows: Rows,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// Upstream provider with its name and issuer in the store's types.
#[derive(Clone, Debug)]
pub(crate) struct Leg {
    /// Index of the provider.
    pub(crate) at: usize,
    pub(crate) name: ProviderName,
    /// Issuer of the provider, independent of its name.
    pub(crate) issuer: ProviderIssuer,
    pub(crate) provider: Arc<dyn Upstream>,
    /// `true` if the redirect URI has another origin than the authorization endpoint, whose origin alone receives the
    /// cookie.
    pub(crate) is_elsewhere: bool,
}

/// Rate limiters by kind of endpoint.
#[derive(Debug)]
pub(crate) struct Limits {
    pages: RateLimiter,
    tokens: RateLimiter,
    registration: RateLimiter,
}

/// Kind of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    Page,
    Token,
    Registration,
}

impl AuthServer {
    /// Creates a server with `settings` that stores its state in `store`. Users log in at all `upstreams` in order; the
    /// first one identifies them.
    ///
    /// # Errors
    /// The settings contradict each other.
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

    /// Accepts clients identified by the URL of their metadata document. `http` fetches it and must neither reach private
    /// addresses nor follow redirects. Call this before cloning the server.
    #[must_use]
    pub fn client_documents(mut self, http: impl Into<HttpClient>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.documents = Documents::new(&inner.settings, true);
            inner.cimd = Some(Cimd::new(http.into()));
        }
        self
    }

    /// Sends events to `observer`. Call this before cloning the server.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.observer = Some(observer);
        }
        self
    }

    /// Shares the set of revoked sessions with `before`, the server that this one replaces: each sees the revocations of
    /// the other, and hooks of `before` run for both. Call this before cloning the server.
    #[must_use]
    pub fn sharing_revocations_with(mut self, before: &Self) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.revoked = Arc::clone(&before.0.revoked);
        }
        self
    }

    /// Rejects providers whose names belong to other issuers in the store. Call this before serving requests: users and
    /// tokens of the other issuers remain stored but unreachable.
    ///
    /// # Errors
    /// The store is unavailable, or it has users or tokens of another provider of the same name.
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

    /// Returns the routes, at the paths given by the issuer's address and the providers' redirect URIs. The client address
    /// comes from a `SocketAddr` in the request's extensions, or axum's `ConnectInfo`.
    pub fn router(&self) -> Router {
        crate::router::router(&self.0)
    }

    /// Returns the verifier of the tokens for the resource `audience`, which works in process. `None` if the server issues
    /// no tokens for that resource.
    #[must_use]
    pub fn verifier(&self, audience: &str) -> Option<OwnTokens> {
        OwnTokens::new(&self.0, audience)
    }

    /// Returns the upstream tokens of a session. They are loaded on first use.
    #[must_use]
    pub fn tokens(&self, session: SessionId) -> Arc<dyn UpstreamTokens> {
        Arc::new(SessionTokens::new(Arc::clone(&self.0), session))
    }

    /// Reads the revocations of other replicas, for as long as the future is polled. Spawn it once, before serving
    /// requests: from this call on, tokens are rejected as [`OwnFault::Unread`](crate::OwnFault::Unread) until the store
    /// has been read, unless a server with [shared](Self::sharing_revocations_with) revocations has read it already.
    pub fn watch(self) -> impl Future<Output = ()> + Send {
        self.0.revoked.begin_reading();
        async move { crate::own::watch(&self.0).await }
    }

    /// Waits until [`watch`](Self::watch) has read the store. Returns immediately if nothing watches.
    pub async fn revocations_read(&self) {
        self.0.revoked.completed().await;
    }

    /// Ends a session: its refresh token, its access tokens and its upstream tokens.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn end_session(&self, session: SessionId) -> Result<(), vmcp_auth_store::StoreError> {
        self.0.end_session(session).await
    }

    /// Returns `true` if a session is known in this process to be revoked.
    #[must_use]
    pub fn has_ended(&self, session: SessionId) -> bool {
        self.0.revoked.contains(session)
    }

    /// Registers `hook` for each session that is revoked on this replica or, with [`AuthServer::watch`], on another one, so
    /// that streams opened with its tokens can be closed. The hook must not block.
    pub fn on_end(&self, hook: impl Fn(SessionId) + Send + Sync + 'static) {
        self.0.revoked.subscribe(Box::new(hook));
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Returns the sizes of this process's state, for gauges. The store reports its own in `Store::counts`.
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

    /// Returns the issuer's identifier.
    pub(crate) fn issuer(&self) -> &str {
        self.settings.issuer.as_str()
    }

    /// Returns the provider of this name, and its index.
    pub(crate) fn upstream(&self, name: &ProviderName) -> Option<(usize, &Leg)> {
        self.upstreams.iter().enumerate().find(|(_, leg)| leg.name == *name)
    }

    /// Counts a request, and rejects it if its address exceeds the rate limit.
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

    /// Removes the cached state of a session that ended.
    pub(crate) fn forget(&self, session: SessionId) {
        self.revoked.insert(session, self.clock.now());
        for leg in &self.upstreams {
            self.rows.forget(session, &leg.name);
        }
    }
}

/// Names the providers, and rejects those whose redirect URI no route or cookie can serve.
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
