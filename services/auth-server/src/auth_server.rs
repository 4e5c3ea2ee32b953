//! Authorization server: its settings, its shared parts and its operations besides the endpoints.

use std::fmt;
use std::sync::Arc;

use vmcp_auth_store::{SessionId, Store, StoreError};
use vmcp_core::{Clock, HttpClient, UpstreamTokens};

use crate::access_token::{AccessTokenVerifier, TokenVerifiers};
use crate::client_id_metadata::ClientMetadataCache;
use crate::event::Observer;
use crate::event_reporter::EventReporter;
use crate::rate_limits::RateLimiters;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::start_error::{ProviderCheckError, StartError};
use crate::upstream::Upstream;
use crate::upstream_cipher::UpstreamCipher;
use crate::upstream_provider::UpstreamProviders;
use crate::upstream_token_cache::UpstreamTokenCache;
use crate::upstream_tokens::{SessionTokens, UpstreamTokenService};

/// OAuth 2.1 and OpenID Connect issuer whose users log in at upstream identity providers. Clones share their state.
#[derive(Clone)]
pub struct AuthServer {
    pub(crate) settings: Arc<Settings>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) providers: UpstreamProviders,
    pub(crate) client_metadata: Option<Arc<ClientMetadataCache>>,
    pub(crate) limiters: Arc<RateLimiters>,
    pub(crate) cipher: UpstreamCipher,
    pub(crate) sessions: Sessions,
    pub(crate) events: EventReporter,
    /// Built from `sessions`: [`connect`] follows its changes.
    pub(crate) verifiers: Arc<TokenVerifiers>,
    /// Built from `sessions` and `events`: [`connect`] follows their changes.
    pub(crate) upstream_tokens: Arc<UpstreamTokenService>,
}

/// Sizes of a server's in-process state. Each is bounded, and all entries expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Metadata documents of clients, and failed fetches.
    pub documents: usize,
    /// Addresses with a rate limit, counted once for each kind of endpoint.
    pub addresses: usize,
    /// Sessions that were revoked before their access tokens expire.
    pub revoked: usize,
    /// Cached upstream tokens.
    pub upstream_tokens: usize,
    /// Upstream tokens whose provider is not asked again for a while, after a failure or a recent refresh.
    pub backed_off: usize,
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
        let providers = UpstreamProviders::new(&settings, upstreams)?;
        let settings = Arc::new(settings);
        let sessions = Sessions {
            store: Arc::clone(&store),
            clock: clock.clone(),
            providers: providers.clone(),
            revoked: Arc::default(),
            token_cache: Arc::new(UpstreamTokenCache::new()),
        };
        let events = EventReporter::new(None, providers.clone());
        let cipher = UpstreamCipher::new(Arc::clone(&settings), clock.clone());
        let (verifiers, upstream_tokens) = connect(&settings, &cipher, &sessions, &events);
        Ok(Self {
            limiters: Arc::new(RateLimiters::new(settings.rate_limits, clock.clone())),
            client_metadata: None,
            settings,
            store,
            clock,
            providers,
            cipher,
            sessions,
            events,
            verifiers,
            upstream_tokens,
        })
    }

    /// Accepts clients identified by the URL of their metadata document. `http` fetches it and must neither reach private
    /// addresses nor follow redirects. Earlier clones of the server do not accept them.
    #[must_use]
    pub fn with_client_metadata(self, http: impl Into<HttpClient>) -> Self {
        let cache = ClientMetadataCache::new(http.into(), &self.settings, self.clock.clone());
        Self { client_metadata: Some(Arc::new(cache)), ..self }
    }

    /// Sends events to `observer`. Earlier clones of the server do not.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn Observer>) -> Self {
        let events = EventReporter::new(Some(observer), self.providers.clone());
        Self { events, ..self }.connected()
    }

    /// Shares the set of revoked sessions with `before`, the server that this one replaces: each sees the revocations of
    /// the other, and hooks of `before` run for both. Earlier clones of this server do not share it.
    #[must_use]
    pub fn with_shared_revocations(self, before: &Self) -> Self {
        let revoked = Arc::clone(&before.sessions.revoked);
        let sessions = Sessions { revoked, ..self.sessions.clone() };
        Self { sessions, ..self }.connected()
    }

    /// Rejects providers whose names belong to other issuers in the store. Call this before serving requests: users and
    /// tokens of the other issuers remain stored but unreachable.
    ///
    /// # Errors
    /// The store is unavailable, or it has users or tokens of another provider of the same name.
    pub async fn check_providers(&self) -> Result<(), ProviderCheckError> {
        let configured: Vec<_> = self
            .providers
            .iter()
            .map(|upstream| (upstream.name.clone(), upstream.issuer.clone()))
            .collect();
        for (provider, known) in self.store.conflicting_issuers(&configured).await? {
            if let Some(upstream) = self.providers.by_name(provider.as_str()) {
                let configured = upstream.issuer.clone();
                return Err(ProviderCheckError::IssuerChanged { provider, known, configured });
            }
        }
        Ok(())
    }

    /// Returns the verifier of the tokens for the resource `audience`, which works in process. `None` if the server issues
    /// no tokens for that resource.
    #[must_use]
    pub fn verifier(&self, audience: &str) -> Option<AccessTokenVerifier> {
        AccessTokenVerifier::new(&self.verifiers, audience)
    }

    /// Returns the upstream tokens of a session. They are loaded on first use.
    #[must_use]
    pub fn upstream_tokens(&self, session: SessionId) -> Arc<dyn UpstreamTokens> {
        Arc::new(SessionTokens::new(Arc::clone(&self.upstream_tokens), session))
    }

    /// Reads the revocations of other replicas, for as long as the future is polled. Spawn it once, before serving
    /// requests: from this call on, tokens are rejected as
    /// [`AccessTokenError::RevocationsNotLoaded`](crate::AccessTokenError::RevocationsNotLoaded) until the store has been
    /// read, unless a server with [shared](Self::with_shared_revocations) revocations has read it already.
    pub fn watch_revocations(self) -> impl Future<Output = ()> + Send {
        self.sessions.revoked.start_loading();
        async move { self.sessions.watch_revocations().await }
    }

    /// Waits until [`watch_revocations`](Self::watch_revocations) has read the store. Returns immediately if nothing
    /// watches.
    pub async fn wait_revocations_loaded(&self) {
        self.sessions.revoked.wait_loaded().await;
    }

    /// Ends a session: its refresh token, its access tokens and its upstream tokens.
    ///
    /// # Errors
    /// The store is unavailable.
    pub async fn end_session(&self, session: SessionId) -> Result<(), StoreError> {
        self.sessions.end(session).await
    }

    /// Returns `true` if a session is known in this process to be revoked.
    #[must_use]
    pub fn is_revoked(&self, session: SessionId) -> bool {
        self.sessions.revoked.contains(session)
    }

    /// Registers `hook` for each session that is revoked on this replica or, with [`AuthServer::watch_revocations`], on
    /// another one, so that streams opened with its tokens can be closed. The hook must not block.
    pub fn on_revocation(&self, hook: impl Fn(SessionId) + Send + Sync + 'static) {
        self.sessions.revoked.subscribe(Box::new(hook));
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the sizes of this process's state, for gauges. The store reports its own in `Store::counts`.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let Sessions { revoked, token_cache, .. } = &self.sessions;
        Stats {
            documents: self.client_metadata.as_ref().map_or(0, |cache| cache.len()),
            addresses: self.limiters.len(),
            revoked: revoked.len(),
            upstream_tokens: token_cache.len(),
            backed_off: token_cache.backed_off(),
        }
    }

    /// Rebuilds the parts that hold `sessions` and `events`.
    fn connected(self) -> Self {
        let (verifiers, upstream_tokens) =
            connect(&self.settings, &self.cipher, &self.sessions, &self.events);
        Self { verifiers, upstream_tokens, ..self }
    }
}

/// Builds the parts that hold `sessions` and `events`.
fn connect(
    settings: &Arc<Settings>,
    cipher: &UpstreamCipher,
    sessions: &Sessions,
    events: &EventReporter,
) -> (Arc<TokenVerifiers>, Arc<UpstreamTokenService>) {
    let Sessions { store, clock, providers, revoked, token_cache } = sessions;
    let verifiers = TokenVerifiers::new(settings, Arc::clone(store), Arc::clone(revoked), clock);
    let upstream_tokens = UpstreamTokenService {
        settings: Arc::clone(settings),
        store: Arc::clone(store),
        clock: clock.clone(),
        providers: providers.clone(),
        cipher: cipher.clone(),
        token_cache: Arc::clone(token_cache),
        sessions: sessions.clone(),
        events: events.clone(),
    };
    (Arc::new(verifiers), Arc::new(upstream_tokens))
}

impl fmt::Debug for AuthServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthServer")
            .field("issuer", &self.settings.issuer)
            .field("providers", &self.providers)
            .finish_non_exhaustive()
    }
}
