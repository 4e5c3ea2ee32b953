//! Server requests that wait for the client's response.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;
use vmcp_timeout::PauseGuard;

use super::BackendSessionSlot;
use super::id_form::{IdForm, ServerRequestId};
use crate::backend::handshake::BackendSession;

/// Maximum number of pending server requests of one session.
const MAX_PENDING: usize = 64;

/// Pending server requests of a session.
#[derive(Debug, Default)]
pub(super) struct ServerRequests {
    /// Requests with their ids and the time they were sent, by the number in the id.
    pending: HashMap<u128, PendingEntry>,
    /// Serial number of the last request.
    serial: u64,
}

#[derive(Debug)]
struct PendingEntry {
    id: ServerRequestId,
    server_request: PendingServerRequest,
    sent: Instant,
}

/// Recipient of the client's response to a server request.
#[derive(Debug)]
pub(crate) enum PendingServerRequest {
    /// The stateful backend that sent the request, under its own id.
    Backend {
        slot: Arc<BackendSessionSlot>,
        backend_session: Arc<BackendSession>,
        id: Bytes,
        /// Guards that pause the timeouts of dependent calls until the response.
        pauses: Vec<PauseGuard>,
        /// Dangling once the stream that delivered the server request has ended.
        asker: Weak<()>,
    },
    /// A waiting call, which receives the whole response.
    Call(oneshot::Sender<Bytes>),
}

impl PendingServerRequest {
    /// Returns `true` if the recipient still waits.
    fn is_open(&self) -> bool {
        match self {
            Self::Backend { asker, .. } => asker.strong_count() > 0,
            Self::Call(waiting) => !waiting.is_closed(),
        }
    }
}

impl ServerRequests {
    /// Adds a request. Returns its id, or `None` if too many are pending.
    pub(super) fn insert(
        &mut self,
        server_request: PendingServerRequest,
        form: &IdForm,
    ) -> Option<ServerRequestId> {
        if self.pending.len() >= MAX_PENDING {
            return None;
        }
        self.serial += 1;
        let id = form.server_request(self.serial);
        let entry = PendingEntry { id: id.clone(), server_request, sent: Instant::now() };
        self.pending.insert(id.number, entry);
        Some(id)
    }

    pub(super) fn remove(&mut self, number: u128) -> Option<PendingServerRequest> {
        self.pending.remove(&number).map(|entry| entry.server_request)
    }

    /// Removes the request that a backend sent under its id `theirs`. Returns the id that the client received.
    pub(super) fn withdraw(
        &mut self,
        of: &Arc<BackendSession>,
        theirs: &[u8],
    ) -> Option<ServerRequestId> {
        let number =
            self.pending.iter().find_map(|(number, entry)| match &entry.server_request {
                PendingServerRequest::Backend { backend_session, id, .. }
                    if Arc::ptr_eq(backend_session, of) && id == theirs =>
                {
                    Some(*number)
                }
                PendingServerRequest::Backend { .. } | PendingServerRequest::Call(_) => None,
            })?;
        self.pending.remove(&number).map(|entry| entry.id)
    }

    /// Removes the requests whose recipient waits no longer or that have been pending for longer than `timeout`.
    pub(super) fn remove_expired(&mut self, timeout: Duration) -> Vec<PendingServerRequest> {
        let expired = self.pending.extract_if(|_, entry| {
            !entry.server_request.is_open() || entry.sent.elapsed() >= timeout
        });
        expired.map(|(_, entry)| entry.server_request).collect()
    }
}
