//! Authorization server: its parts and its routes.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use vmcp_auth_store::{ProviderIssuer, ProviderName, SessionId, Store, Timestamp};
use vmcp_core::{Clock, HttpClient, RateLimiter, UpstreamTokens};
use vmcp_jwt::{KeySet, Verifier};

use crate::access_token::AccessTokenVerifier;
use crate::client_id_metadata::ClientMetadataCache;
use crate::discovery::DiscoveryDocuments;
use crate::error::OAuthError;
use crate::page::Pages;
use crate::revoked_sessions::RevokedSessions;
use crate::upstream_tokens::{SessionTokens, UpstreamTokenCache};
use crate::{Observer, ProviderCheckError, Settings, StartError, Upstream};

/// OAuth 2.1 and OpenID Connect issuer whose users log in at upstream identity providers. Clones share their state.
#[derive(Clone)]
pub struct AuthServer(Arc<AppState>);

/// Sizes of a server's in-process state. Each is bounded, and all entries expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Metadata documents of clients, and failed fetches.
    pub documents: usize,
    /// Addresses with a rate limit, counted once for each kind of endpoint.
    pub addresses: usize,
    /// Sessions that were revoked before their access tokens expire.
    pub revoked: usize,
    /// Cached rows of upstream tokens.
    pub upstream_tokens: usize,
    /// Rows whose provider is not asked again for a while, after a failure or a recent refresh.
    pub backed_off: usize,
}

/// State shared by all endpoints.
pub(crate) struct AppState {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    /// Providers in the order in which users log in.
    pub(crate) upstreams: Vec<UpstreamProvider>,
    pub(crate) client_id_metadata: Option<ClientMetadataCache>,
    pub(crate) documents: DiscoveryDocuments,
    pub(crate) pages: Pages,
    pub(crate) limits: RateLimiters,
    pub(crate) revoked: Arc<RevokedSessions>,
    /// One verifier for each audience, in order.
    pub(crate) verifiers: Vec<Verifier<Arc<KeySet>>>,
    pub(crate) token_cache: UpstreamTokenCache,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

/// Upstream provider with its name and issuer in the store's types.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamProvider {
    /// Index of the provider.
    pub(crate) at: usize,
    pub(crate) name: ProviderName,
    /// Issuer of the provider, independent of its name.
    pub(crate) issuer: ProviderIssuer,
    pub(crate) provider: Arc<dyn Upstream>,
    /// `true` if the redirect URI has another origin than the authorization endpoint, whose origin alone receives the
    /// cookie.
    pub(crate) is_other_origin: bool,
}

/// Rate limiters by kind of endpoint.
#[derive(Debug)]
pub(crate) struct RateLimiters {
    pages: RateLimiter,
    tokens: RateLimiter,
    registration: RateLimiter,
}

/// Kind of an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EndpointClass {
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
    ) -> Result<Self, StartError> {
        settings.check()?;
        let upstreams = upstream_providers(&settings, upstreams)?;
        let rate_limits = settings.rate_limits;
        Ok(Self(Arc::new(AppState {
            documents: DiscoveryDocuments::new(&settings, false),
            pages: Pages::new(&settings.display_name),
            limits: RateLimiters {
                pages: RateLimiter::new(rate_limits.pages),
                tokens: RateLimiter::new(rate_limits.tokens),
                registration: RateLimiter::new(rate_limits.registration),
            },
            revoked: Arc::default(),
            token_cache: UpstreamTokenCache::new(),
            verifiers: crate::access_token::verifiers(&settings, &clock),
            client_id_metadata: None,
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
    pub fn with_client_metadata(mut self, http: impl Into<HttpClient>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.documents = DiscoveryDocuments::new(&inner.settings, true);
            inner.client_id_metadata = Some(ClientMetadataCache::new(http.into()));
        }
        self
    }

    /// Sends events to `observer`. Call this before cloning the server.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.observer = Some(observer);
        }
        self
    }

    /// Shares the set of revoked sessions with `before`, the server that this one replaces: each sees the revocations of
    /// the other, and hooks of `before` run for both. Call this before cloning the server.
    #[must_use]
    pub fn with_shared_revocations(mut self, before: &Self) -> Self {
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
    pub async fn check_providers(&self) -> Result<(), ProviderCheckError> {
        let upstream_providers = &self.0.upstreams;
        let wanted: Vec<_> = upstream_providers
            .iter()
            .map(|upstream| (upstream.name.clone(), upstream.issuer.clone()))
            .collect();
        let others = self.0.store.conflicting_issuers(&wanted).await?;
        let Some((provider, known)) = others.into_iter().next() else { return Ok(()) };
        let wanted = wanted.into_iter().find(|(name, _)| *name == provider);
        let configured = wanted.map_or_else(|| known.clone(), |(_, issuer)| issuer);
        Err(ProviderCheckError::IssuerChanged { provider, known, configured })
    }

    /// Returns the routes, at the paths given by the issuer's address and the providers' redirect URIs. The client address
    /// comes from a `SocketAddr` in the request's extensions, or axum's `ConnectInfo`.
    pub fn router(&self) -> Router {
        crate::router::router(&self.0)
    }

    /// Returns the verifier of the tokens for the resource `audience`, which works in process. `None` if the server issues
    /// no tokens for that resource.
    #[must_use]
    pub fn verifier(&self, audience: &str) -> Option<AccessTokenVerifier> {
        AccessTokenVerifier::new(&self.0, audience)
    }

    /// Returns the upstream tokens of a session. They are loaded on first use.
    #[must_use]
    pub fn upstream_tokens(&self, session: SessionId) -> Arc<dyn UpstreamTokens> {
        Arc::new(SessionTokens::new(Arc::clone(&self.0), session))
    }

    /// Reads the revocations of other replicas, for as long as the future is polled. Spawn it once, before serving
    /// requests: from this call on, tokens are rejected as [`AccessTokenError::RevocationsNotLoaded`](crate::OwnFault::Unread) until the store
    /// has been read, unless a server with [shared](Self::sharing_revocations_with) revocations has read it already.
    pub fn watch_revocations(self) -> impl Future<Output = ()> + Send {
        self.0.revoked.start_loading();
        async move { crate::access_token::watch_revocations(&self.0).await }
    }

    /// Waits until [`watch_revocations`](Self::watch_revocations) has read the store. Returns immediately if nothing watches.
    pub async fn wait_revocations_loaded(&self) {
        self.0.revoked.wait_loaded().await;
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
    pub fn is_revoked(&self, session: SessionId) -> bool {
        self.0.revoked.contains(session)
    }

    /// Registers `hook` for each session that is revoked on this replica or, with [`AuthServer::watch_revocations`], on another one, so
    /// that streams opened with its tokens can be closed. The hook must not block.
    pub fn on_revocation(&self, hook: impl Fn(SessionId) + Send + Sync + 'static) {
        self.0.revoked.subscribe(Box::new(hook));
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Returns the sizes of this process's state, for gauges. The store reports its own in `Store::counts`.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let AppState { client_id_metadata, limits, revoked, token_cache, .. } = &*self.0;
        let RateLimiters { pages, tokens, registration } = limits;
        Stats {
            documents: client_id_metadata.as_ref().map_or(0, ClientMetadataCache::len),
            addresses: [pages, tokens, registration].map(RateLimiter::len).iter().sum(),
            revoked: revoked.len(),
            upstream_tokens: token_cache.len(),
            backed_off: token_cache.backed_off(),
        }
    }
}

#[cfg(test)]
impl AuthServer {
    pub(crate) fn inner(&self) -> &Arc<AppState> {
        &self.0
    }

    pub(crate) fn upstream_providers(&self) -> &[UpstreamProvider] {
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

// === impl AppState ===

impl AppState {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now().into()
    }

    /// Returns the issuer's identifier.
    pub(crate) fn issuer(&self) -> &str {
        self.settings.issuer.as_str()
    }

    /// Returns the provider of this name, and its index.
    pub(crate) fn upstream(&self, name: &ProviderName) -> Option<(usize, &UpstreamProvider)> {
        self.upstreams.iter().enumerate().find(|(_, upstream)| upstream.name == *name)
    }

    /// Counts a request, and rejects it if its address exceeds the rate limit.
    pub(crate) fn admit(&self, asked: EndpointClass, address: IpAddr) -> Result<(), OAuthError> {
        let limiter = match asked {
            EndpointClass::Page => &self.limits.pages,
            EndpointClass::Token => &self.limits.tokens,
            EndpointClass::Registration => &self.limits.registration,
        };
        limiter.admit(address, self.clock.now()).map_err(OAuthError::too_many)
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
        for upstream in &self.upstreams {
            self.token_cache.remove(session, &upstream.name);
        }
    }
}

/// Names the providers, and rejects those whose redirect URI no route or cookie can serve.
fn upstream_providers(
    settings: &Settings,
    upstreams: Vec<Arc<dyn Upstream>>,
) -> Result<Vec<UpstreamProvider>, StartError> {
    let taken: BTreeSet<String> = crate::router::fixed_paths(settings).into_iter().collect();
    let (authorization_origin, served) =
        (settings.authorization_issuer().origin(), settings.origins());
    let back = format!("{}/", settings.return_path());
    let mut upstream_providers: Vec<UpstreamProvider> = Vec::new();
    for provider in upstreams {
        let called: Box<str> = provider.name().into();
        let name =
            ProviderName::new(&*called).map_err(|_| StartError::InvalidName(called.clone()))?;
        if upstream_providers.iter().any(|upstream| upstream.name == name) {
            return Err(StartError::DuplicateName(called));
        }
        let issuer = ProviderIssuer::new(provider.issuer_id());
        let issuer = issuer.map_err(|_| StartError::InvalidIssuer(called.clone()))?;
        let uri = provider.redirect_uri();
        let callback =
            url::Url::parse(&uri.to_string()).map(|url| url.origin().ascii_serialization());
        let callback = callback.unwrap_or_default();
        if !served.contains(&callback) {
            let (callback, authorization_origin) = (callback.into(), authorization_origin.into());
            return Err(StartError::ForeignRedirectUri {
                provider: called,
                callback,
                authorization_origin,
            });
        }
        let here = uri.path();
        let odd =
            here.split('/').any(|part| part.starts_with([':', '*']) || part.contains(['{', '}']));
        if odd || taken.contains(here) || here.starts_with(&back) {
            return Err(StartError::RedirectUriPathTaken { provider: called, path: here.into() });
        }
        let is_other_origin = callback != authorization_origin;
        upstream_providers.push(UpstreamProvider {
            at: upstream_providers.len(),
            name,
            issuer,
            provider,
            is_other_origin,
        });
    }
    if upstream_providers.is_empty() { Err(StartError::NoProvider) } else { Ok(upstream_providers) }
}
