//! The embedded authorization server while it runs.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use vmcp_auth_server::{AuthServer, Sizes, StartFault};
use vmcp_auth_store::Store;

use crate::parts::{Issuing, Sessions, StorageError};

/// The embedded authorization server. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Issuer(Arc<Running>);

struct Running {
    server: AuthServer,
    store: Arc<dyn Store>,
    sessions: Sessions,
    /// What it was made of.
    print: u64,
    issuer: String,
    storage_print: u64,
    watching: AbortHandle,
}

/// Why it cannot run.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// Its state cannot be kept.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// What it was told cannot work together.
    #[error("authServer: {0}")]
    Start(#[from] StartFault),
    /// It would be another one.
    #[error(
        "authServer.{0}: changes are taken over at a restart only: restart the server, or undo them"
    )]
    Restart(&'static str),
}

impl Issuer {
    /// Starts it.
    ///
    /// # Errors
    /// Its state cannot be kept where it should be.
    pub(crate) async fn start(issuing: &Issuing) -> Result<Self, IssuerError> {
        let store = issuing.storage.open().await?;
        let server = issuing.serve(Arc::clone(&store), None)?;
        let sessions = Sessions::new(&server);
        Ok(Self::run(issuing, server, store, sessions))
    }

    /// The same one if nothing has changed, else one with the same state.
    ///
    /// # Errors
    /// It would be another issuer, or its state elsewhere.
    pub(crate) fn follow(&self, issuing: &Issuing) -> Result<Self, IssuerError> {
        let running = &*self.0;
        if running.print == issuing.print {
            return Ok(self.clone());
        }
        if running.issuer != issuing.issuer() {
            return Err(IssuerError::Restart("issuer"));
        }
        if running.storage_print != issuing.storage_print {
            return Err(IssuerError::Restart("storage"));
        }
        let store = Arc::clone(&running.store);
        let server = issuing.serve(Arc::clone(&store), Some(&running.server))?;
        Ok(Self::run(issuing, server, store, running.sessions.clone()))
    }

    fn run(
        issuing: &Issuing,
        server: AuthServer,
        store: Arc<dyn Store>,
        sessions: Sessions,
    ) -> Self {
        let watching = tokio::spawn(server.clone().watch()).abort_handle();
        Self(Arc::new(Running {
            server,
            store,
            sessions,
            print: issuing.print,
            issuer: issuing.issuer().to_owned(),
            storage_print: issuing.storage_print,
            watching,
        }))
    }

    /// From now on this one knows which sessions are over.
    pub(crate) fn take_over(&self) {
        self.0.sessions.replace(&self.0.server);
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Whether it is the same one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// What `/status` shows of it.
    pub(crate) fn to_json(&self) -> Value {
        let Sizes { documents, addresses, revoked, rows } = self.0.server.sizes();
        json!({
            "issuer": self.0.issuer,
            "client_documents": documents,
            "watched_addresses": addresses,
            "ended_sessions": revoked,
            "upstream_tokens": rows,
        })
    }

    pub(crate) fn router(&self) -> Router {
        self.0.server.router()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Issuer").field(&self.0.server).finish()
    }
}
