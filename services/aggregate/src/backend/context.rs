//! Context of the tasks of backends: the client information of the gateway, and the events that backends report.
//!
//! Backends know nothing of clients and catalogs. They send events on a channel; the gateway applies them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, oneshot};
use vmcp_core::{Caller, Identity};

use super::BackendHandle;
use super::handshake::ClientInfo;
use crate::catalog::{ByGeneration, Kind, define_literal};

/// Maximum number of queued events. Backends wait for space.
const MAX_QUEUED_EVENTS: usize = 256;

/// Event reported by a backend.
#[derive(Debug)]
pub(crate) enum BackendEvent {
    /// The lists that all callers share have changed.
    CatalogChanged {
        /// Notified when requests see the new catalog.
        applied: oneshot::Sender<()>,
    },
    /// The lists of one caller have changed.
    CallerCatalogChanged {
        /// The caller.
        caller: Identity,
        /// Changed lists.
        changes: ByGeneration<Vec<Kind>>,
    },
}

/// Handle with which the tasks of backends report events and introduce themselves.
#[derive(Clone, Debug)]
pub(crate) struct BackendContext {
    client_info: Arc<ArcSwap<GatewayClientInfo>>,
    events: mpsc::Sender<BackendEvent>,
}

/// Client information of the gateway, for requests that no client caused.
#[derive(Debug)]
pub(crate) struct GatewayClientInfo(Vec<u8>);

impl GatewayClientInfo {
    /// Creates the information from the name and version of the server.
    fn new(name: &str, version: &str) -> Self {
        let mut info = b"{\"name\":".to_vec();
        info.extend_from_slice(&define_literal(name));
        info.extend_from_slice(b",\"version\":");
        info.extend_from_slice(&define_literal(version));
        info.push(b'}');
        Self(info)
    }

    /// Returns the value of `clientInfo`, as JSON.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn get(&self) -> ClientInfo<'_> {
        // Some servers list certain tools only for clients with these capabilities. The catalog serves all clients, so it has
        // to include those tools; a call from a client without the capability then fails with a clear error. The same applies
        // to clients that render user interfaces.
        let capabilities = br#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#;
        let caller = &Caller::Gateway;
        ClientInfo { caller, capabilities, client: &self.0, cause: None, address: None }
    }

    /// Returns the client information for requests on behalf of a caller.
    pub(crate) fn on_behalf_of<'a>(&'a self, caller: &'a Caller) -> ClientInfo<'a> {
        ClientInfo { caller, ..self.get() }
    }

    /// Returns the client information for a probe, with credentials that the backend accepts.
    pub(crate) fn before<'a>(
        &'a self,
        backend: &BackendHandle,
        caller: &'a Caller,
    ) -> ClientInfo<'a> {
        if backend.shared() { self.get() } else { self.on_behalf_of(caller) }
    }
}

impl BackendContext {
    /// Creates the context of a server with this name and version, and the receiver of its events.
    pub(crate) fn new(name: &str, version: &str) -> (Self, mpsc::Receiver<BackendEvent>) {
        let (events, receiver) = mpsc::channel(MAX_QUEUED_EVENTS);
        let client_info = Arc::new(ArcSwap::from_pointee(GatewayClientInfo::new(name, version)));
        (Self { client_info, events }, receiver)
    }

    /// Replaces the name and version of the server.
    pub(crate) fn set_client_info(&self, name: &str, version: &str) {
        self.client_info.store(Arc::new(GatewayClientInfo::new(name, version)));
    }

    /// Returns the client information of the gateway.
    pub(crate) fn client_info(&self) -> Arc<GatewayClientInfo> {
        self.client_info.load_full()
    }

    /// Reports changed shared lists, and waits until requests see the new catalog.
    pub(super) async fn catalog_changed(&self) {
        let (applied, done) = oneshot::channel();
        // Both fail only during shutdown, when no request needs the catalog any more.
        if self.events.send(BackendEvent::CatalogChanged { applied }).await.is_ok() {
            _ = done.await;
        }
    }

    /// Reports changed lists of one caller.
    pub(super) async fn caller_catalog_changed(
        &self,
        caller: Identity,
        changes: ByGeneration<Vec<Kind>>,
    ) {
        // Fails only during shutdown, when no client is left to notify.
        _ = self.events.send(BackendEvent::CallerCatalogChanged { caller, changes }).await;
    }
}
