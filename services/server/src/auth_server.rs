//! The embedded authorization server while it runs.

mod monitor;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use serde_json::Value;
use tokio::time::timeout;
use vmcp_auth_server::{AuthServer, Observer, ProviderCheckError, StartError, Stats};
use vmcp_auth_store::{Counts, Store};

use self::monitor::{AbortOnDrop, StoreMonitor};
use crate::auth_audit::{AuthAuditRecorder, AuthEventObserver};
use crate::parts::{
    AuthServerParts, AuthServerReport, IssuerSessions, ObservedProvider, StorageError,
};

/// The embedded authorization server. A clone is the same one.
#[derive(Clone)]
pub(crate) struct AuthServerRuntime(Arc<AuthServerState>);

struct AuthServerState {
    server: AuthServer,
    store: Arc<dyn Store>,
    sessions: IssuerSessions,
    /// Digest of the settings.
    digest: u64,
    issuer: String,
    storage_kind: &'static str,
    storage_address_digest: u64,
    storage_digest: u64,
    upstreams: Vec<Arc<ObservedProvider>>,
    retained: Arc<RetainedState>,
    _watching: [AbortOnDrop; 2],
}

/// State that survives a reload which keeps the issuer and its store.
struct RetainedState {
    observer: Arc<dyn Observer>,
    monitor: Arc<StoreMonitor>,
    _watching: AbortOnDrop,
}

/// Time to wait at start until the store has told which sessions were revoked.
const REVOCATIONS_TIMEOUT: Duration = Duration::from_secs(5);

/// Error that prevents the authorization server from starting.
#[derive(Debug, thiserror::Error)]
pub enum AuthServerError {
    /// The store cannot be opened.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The settings are inconsistent.
    #[error("authServer: {0}")]
    Start(#[from] StartError),
    /// The identity of a provider has changed.
    #[error("authServer.upstreamProviders: {0}")]
    Provider(#[from] ProviderCheckError),
    /// It would be another one.
    #[error("authServer.{0}: changes apply at a restart only: restart the server, or undo them")]
    Restart(&'static str),
}

impl AuthServerRuntime {
    /// Starts it. What happens goes to `auth_audit`.
    ///
    /// # Errors
    /// Its state cannot be kept where it should be.
    pub(crate) async fn start(
        auth_server: &AuthServerParts,
        auth_audit: &Arc<AuthAuditRecorder>,
    ) -> Result<Self, AuthServerError> {
        let store = auth_server.storage.open().await?;
        let observer: Arc<dyn Observer> =
            Arc::new(AuthEventObserver::new(auth_server.issuer(), auth_audit));
        let (server, upstreams) =
            auth_server.build(Arc::clone(&store), None, Arc::clone(&observer))?;
        server.check_providers().await?;
        let sessions = IssuerSessions::new(&server);
        let retained = RetainedState::new(observer, &store);
        let issuer = Self::run(auth_server, (server, upstreams), store, sessions, retained);
        // Until then its tokens are refused with 503, so few clients should come sooner.
        if timeout(REVOCATIONS_TIMEOUT, issuer.0.server.wait_revocations_loaded()).await.is_err() {
            tracing::error!(
                seconds = REVOCATIONS_TIMEOUT.as_secs(),
                "failed to read revoked sessions from the store: tokens are refused until it answers"
            );
        }
        Ok(issuer)
    }

    /// The same one if nothing has changed, else one with the same state.
    ///
    /// # Errors
    /// It would be another issuer, or its state elsewhere.
    pub(crate) async fn reconfigure(
        &self,
        auth_server: &AuthServerParts,
    ) -> Result<Self, AuthServerError> {
        let running = &*self.0;
        if running.digest == auth_server.digest {
            return Ok(self.clone());
        }
        if running.issuer != auth_server.issuer() {
            return Err(AuthServerError::Restart("issuer"));
        }
        if running.storage_address_digest != auth_server.storage_address_digest {
            return Err(AuthServerError::Restart("storage"));
        }
        let observer = Arc::clone(&running.retained.observer);
        let (store, retained) = if running.storage_digest == auth_server.storage_digest {
            (Arc::clone(&running.store), Arc::clone(&running.retained))
        } else {
            // The same state, reached with a rotated password or certificate.
            let store = auth_server.storage.open().await?;
            let retained = RetainedState::new(Arc::clone(&observer), &store);
            (store, retained)
        };
        let served = auth_server.build(Arc::clone(&store), Some(&running.server), observer)?;
        served.0.check_providers().await?;
        Ok(Self::run(auth_server, served, store, running.sessions.clone(), retained))
    }

    fn run(
        auth_server: &AuthServerParts,
        (server, upstreams): (AuthServer, Vec<Arc<ObservedProvider>>),
        store: Arc<dyn Store>,
        sessions: IssuerSessions,
        retained: Arc<RetainedState>,
    ) -> Self {
        let watching = [
            AbortOnDrop::spawn(server.clone().watch_revocations()),
            AbortOnDrop::watch_providers(upstreams.clone()),
        ];
        Self(Arc::new(AuthServerState {
            server,
            store,
            sessions,
            digest: auth_server.digest,
            issuer: auth_server.issuer().to_owned(),
            storage_kind: auth_server.storage.kind(),
            storage_address_digest: auth_server.storage_address_digest,
            storage_digest: auth_server.storage_digest,
            upstreams,
            retained,
            _watching: watching,
        }))
    }

    /// Makes this instance the source of session revocations.
    pub(crate) fn publish_revocations(&self) {
        self.0.sessions.replace(&self.0.server);
    }

    pub(crate) fn sessions(&self) -> &IssuerSessions {
        &self.0.sessions
    }

    /// Returns `true` if both are the same instance.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the status for `/status`.
    pub(crate) fn to_json(&self) -> Value {
        let AuthServerState { issuer, storage_kind, upstreams, retained, .. } = &*self.0;
        let report = AuthServerReport {
            issuer: issuer.clone(),
            storage: retained.monitor.stored(storage_kind),
            upstreams: upstreams.iter().map(|upstream| upstream.report()).collect(),
        };
        let mut shown = report.to_json();
        for (kind, count) in self.memory_counts() {
            shown[kind] = count.into();
        }
        let stored = self.stored_counts().map(|(kind, count)| (kind.to_owned(), count.into()));
        shown["stored"] = Value::Object(stored.into_iter().collect());
        shown
    }

    /// Returns the number of entries in memory, by kind.
    pub(crate) fn memory_counts(&self) -> [(&'static str, usize); 5] {
        let Stats { documents, addresses, revoked, upstream_tokens, backed_off } =
            self.0.server.stats();
        [
            ("client_documents", documents),
            ("rate_limited_addresses", addresses),
            ("revoked_sessions", revoked),
            ("upstream_tokens", upstream_tokens),
            ("upstream_tokens_backed_off", backed_off),
        ]
    }

    /// Returns the number of entries in the store at the last check, by kind.
    pub(crate) fn stored_counts(&self) -> [(&'static str, usize); 8] {
        let Counts { clients, logins, codes, grants, sessions, users, browsers, registrations } =
            self.0.retained.monitor.counts();
        [
            ("clients", clients),
            ("logins", logins),
            ("codes", codes),
            ("grants", grants),
            ("sessions", sessions),
            ("users", users),
            ("browsers", browsers),
            ("registrations", registrations),
        ]
    }

    /// Returns the kind of the store and its availability, which is `None` before the first check.
    pub(crate) fn store_status(&self) -> (&'static str, Option<bool>) {
        (self.0.storage_kind, self.0.retained.monitor.is_up())
    }

    pub(crate) fn router(&self) -> Router {
        self.0.server.router()
    }
}

impl RetainedState {
    fn new(observer: Arc<dyn Observer>, store: &Arc<dyn Store>) -> Arc<Self> {
        let monitor = Arc::<StoreMonitor>::default();
        let watching = AbortOnDrop::watch_store(&monitor, store);
        Arc::new(Self { observer, monitor, _watching: watching })
    }
}

impl fmt::Debug for AuthServerRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Issuer").field(&self.0.server).finish()
    }
}
