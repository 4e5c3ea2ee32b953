//! Sending of `notifications/cancelled` to stateful backends: once for each call that ends without a response, never for other
//! calls (MCP 2025-11-25, Cancellation).

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tracing::Instrument;
use vmcp_core::{BoxError, RequestContext};

use crate::backend::cancellation::{cancellation, reason};
use crate::backend::handshake::BackendSession;
use crate::backend::request::{post, with_operation};
use crate::backend::rpc::notify_or_log;
use crate::session::SlotLease;
use vmcp_core::lock;

const METHOD: &str = "notifications/cancelled";

/// Cancellation reason for calls of an ended session.
pub(super) const SESSION_ENDED: &str = "the client ended its session";
/// Cancellation reason for calls of a session that continues at other replicas.
pub(super) const REPLICA_LEFT: &str = "the gateway evicted the session, or stops";
const DISCONNECTED: &str = "the client disconnected";

/// Guard of a call in flight. Cancels the call if dropped before the response.
#[derive(Debug)]
pub(crate) struct Cancellation {
    pub(crate) slot: SlotLease,
    /// Request id sent to the backend, as JSON.
    id: Bytes,
    /// Record of the causing client request, if a layer observes it.
    cause: Option<RequestContext>,
    /// Session of the request in flight. `None` before it is sent and once there is nothing to cancel; taken at most once.
    backend_session: Mutex<Option<Arc<BackendSession>>>,
}

impl Cancellation {
    pub(crate) fn new(slot: SlotLease, id: Bytes, cause: Option<&RequestContext>) -> Self {
        Self { slot, id, cause: cause.cloned(), backend_session: Mutex::default() }
    }

    /// Records that the request is sent in this session.
    pub(crate) fn arm(&self, backend_session: &Arc<BackendSession>) {
        *lock(&self.backend_session) = Some(Arc::clone(backend_session));
    }

    /// Returns `true` if there is a request to cancel.
    pub(crate) fn is_armed(&self) -> bool {
        lock(&self.backend_session).is_some()
    }

    /// Disarms the guard and returns the session if it was armed.
    pub(crate) fn disarm(&self) -> Option<Arc<BackendSession>> {
        lock(&self.backend_session).take()
    }

    /// Records the failure of the call, and cancels it if the backend may still process it.
    pub(crate) fn failed(&self, error: &BoxError) {
        match reason(error) {
            Some(reason) => self.send(&reason),
            None => drop(self.disarm()),
        }
    }

    /// Cancels the call if the guard is armed, because its client no longer waits for the response.
    pub(super) fn give_up(&self) {
        self.send(DISCONNECTED);
    }

    /// Cancels the call if the guard is armed.
    pub(crate) fn send(&self, reason: &str) {
        let Some(request) = self.request(reason) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let backend = Arc::clone(&self.slot.backend);
        let notifying = async move {
            notify_or_log(&backend, request, "failed to cancel a call at a backend").await;
        };
        runtime.spawn(notifying.in_current_span());
    }

    /// Returns the cancelling request if the guard is armed.
    pub(crate) fn request(&self, reason: &str) -> Option<Request<Full<Bytes>>> {
        let backend_session = self.disarm()?;
        let message = cancellation(&self.id, reason);
        let request =
            backend_session.sign(post(&self.slot.backend, &backend_session.caller(), message));
        Some(with_operation(request, METHOD, self.cause.as_ref()))
    }
}

impl Drop for Cancellation {
    fn drop(&mut self) {
        self.give_up();
    }
}
