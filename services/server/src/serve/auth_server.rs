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

use self::monitor::{Seen, Task};
use crate::auth_audit::{Logins, Recorder};
use crate::parts::{Asked, Issuing, Report, Sessions, StorageError};

/// The embedded authorization server. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Issuer(Arc<Running>);

struct Running {
    server: AuthServer,
    store: Arc<dyn Store>,
    sessions: Sessions,
    /// Digest of the settings.
    print: u64,
    issuer: String,
    storage_kind: &'static str,
    place_print: u64,
    storage_print: u64,
    upstreams: Vec<Arc<Asked>>,
    kept: Arc<Kept>,
    _watching: [Task; 2],
}

/// State that survives a reload which keeps the issuer and its store.
struct Kept {
    observer: Arc<dyn Observer>,
    seen: Arc<Seen>,
    _watching: Task,
}

/// Time to wait at start until the store has told which sessions were revoked.
const FIRST_READ: Duration = Duration::from_secs(5);

/// Error that prevents the authorization server from starting.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
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
    #[error(
        "authServer.{0}: changes are taken over at a restart only: restart the server, or undo them"
    )]
    Restart(&'static str),
}

impl Issuer {
    /// Starts it. What happens goes to `logins`.
    ///
    /// # Errors
    /// Its state cannot be kept where it should be.
    pub(crate) async fn start(
        issuing: &Issuing,
        logins: &Arc<Logins>,
    ) -> Result<Self, IssuerError> {
        let store = issuing.storage.open().await?;
        let observer: Arc<dyn Observer> = Arc::new(Recorder::new(issuing.issuer(), logins));
        let (server, upstreams) = issuing.serve(Arc::clone(&store), None, Arc::clone(&observer))?;
        server.check_providers().await?;
        let sessions = Sessions::new(&server);
        let kept = Kept::new(observer, &store);
        let issuer = Self::run(issuing, (server, upstreams), store, sessions, kept);
        // Until then its tokens are refused with 503, so few clients should come sooner.
        if timeout(FIRST_READ, issuer.0.server.wait_revocations_loaded()).await.is_err() {
            tracing::error!(
                seconds = FIRST_READ.as_secs(),
                "failed to read revoked sessions from the store: tokens are refused until it answers"
            );
        }
        Ok(issuer)
    }

    /// The same one if nothing has changed, else one with the same state.
    ///
    /// # Errors
    /// It would be another issuer, or its state elsewhere.
    pub(crate) async fn follow(&self, issuing: &Issuing) -> Result<Self, IssuerError> {
        let running = &*self.0;
        if running.print == issuing.print {
            return Ok(self.clone());
        }
        if running.issuer != issuing.issuer() {
            return Err(IssuerError::Restart("issuer"));
        }
        if running.place_print != issuing.place_print {
            return Err(IssuerError::Restart("storage"));
        }
        let observer = Arc::clone(&running.kept.observer);
        let (store, kept) = if running.storage_print == issuing.storage_print {
            (Arc::clone(&running.store), Arc::clone(&running.kept))
        } else {
            // The same state, reached with a rotated password or certificate.
            let store = issuing.storage.open().await?;
            let kept = Kept::new(Arc::clone(&observer), &store);
            (store, kept)
        };
        let served = issuing.serve(Arc::clone(&store), Some(&running.server), observer)?;
        served.0.check_providers().await?;
        Ok(Self::run(issuing, served, store, running.sessions.clone(), kept))
    }

    fn run(
        issuing: &Issuing,
        (server, upstreams): (AuthServer, Vec<Arc<Asked>>),
        store: Arc<dyn Store>,
        sessions: Sessions,
        kept: Arc<Kept>,
    ) -> Self {
        let watching = [
            Task::spawn(server.clone().watch_revocations()),
            Task::of_providers(upstreams.clone()),
        ];
        Self(Arc::new(Running {
            server,
            store,
            sessions,
            print: issuing.print,
            issuer: issuing.issuer().to_owned(),
            storage_kind: issuing.storage.kind(),
            place_print: issuing.place_print,
            storage_print: issuing.storage_print,
            upstreams,
            kept,
            _watching: watching,
        }))
    }

    /// Makes this instance the source of session revocations.
    pub(crate) fn take_over(&self) {
        self.0.sessions.replace(&self.0.server);
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Returns `true` if both are the same instance.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the status for `/status`.
    pub(crate) fn to_json(&self) -> Value {
        let Running { issuer, storage_kind, upstreams, kept, .. } = &*self.0;
        let report = Report {
            issuer: issuer.clone(),
            storage: kept.seen.stored(storage_kind),
            upstreams: upstreams.iter().map(|upstream| upstream.found()).collect(),
        };
        let mut shown = report.to_json();
        for (kind, count) in self.held() {
            shown[kind] = count.into();
        }
        let stored = self.stored().map(|(kind, count)| (kind.to_owned(), count.into()));
        shown["stored"] = Value::Object(stored.into_iter().collect());
        shown
    }

    /// Returns the number of entries in memory, by kind.
    pub(crate) fn held(&self) -> [(&'static str, usize); 5] {
        let Stats { documents, addresses, revoked, upstream_tokens, backed_off } =
            self.0.server.stats();
        [
            ("client_documents", documents),
            ("watched_addresses", addresses),
            ("ended_sessions", revoked),
            ("upstream_tokens", upstream_tokens),
            ("upstream_tokens_left_alone", backed_off),
        ]
    }

    /// Returns the number of entries in the store at the last check, by kind.
    pub(crate) fn stored(&self) -> [(&'static str, usize); 8] {
        let Counts { clients, logins, codes, grants, sessions, users, browsers, registrations } =
            self.0.kept.seen.counts();
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
    pub(crate) fn store(&self) -> (&'static str, Option<bool>) {
        (self.0.storage_kind, self.0.kept.seen.is_up())
    }

    pub(crate) fn router(&self) -> Router {
        self.0.server.router()
    }
}

impl Kept {
    fn new(observer: Arc<dyn Observer>, store: &Arc<dyn Store>) -> Arc<Self> {
        let seen = Arc::<Seen>::default();
        let watching = Task::of_store(&seen, store);
        Arc::new(Self { observer, seen, _watching: watching })
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Issuer").field(&self.0.server).finish()
    }
}
