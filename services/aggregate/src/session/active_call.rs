//! Requests of a session that are in flight.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::Notify;
use vmcp_core::RequestContext;
use vmcp_timeout::TimeoutControl;

use super::cancellation::Cancellation;
use super::{BackendSessionSlot, Session};
use crate::stream::Stream;
use crate::stream::detached::Disconnect;

/// Request in flight. It is registered in its session while it is at a backend.
#[derive(Debug)]
pub(crate) struct ActiveCall {
    /// The client's request id, exactly as sent.
    pub(crate) id: Bytes,
    /// `true` for a step of a composite tool, whose client waits for another response.
    pub(super) is_step: bool,
    /// Set by [`Session::register`], before other tasks can find the request. Unset for a request that the gateway handles
    /// itself.
    pub(super) cancellation: OnceLock<Cancellation>,
    /// Control that pauses the timeout while a server request that the call depends on is open.
    pub(crate) hold: TimeoutControl,
    /// Notified when the client cancels the request or ends the session.
    pub(crate) cancelled: Notify,
    /// Set when the client disconnects before the response.
    departure: OnceLock<Disconnect>,
    /// Record of the client's request, if it is observed.
    request_context: Option<RequestContext>,
    /// Stream for the response, if it needs one.
    stream: OnceLock<Arc<Stream>>,
}

/// Guard that removes a request from the table of its session, and cancels it at the backend unless it has its response.
#[derive(Debug)]
pub(crate) struct ActiveCallGuard {
    pub(super) session: Arc<Session>,
    pub(super) active: Arc<ActiveCall>,
}

impl ActiveCall {
    /// Creates the entry of the client's request with this id.
    pub(crate) fn of_client(id: Bytes, request_context: Option<RequestContext>) -> Arc<Self> {
        Self::new(id, false, request_context)
    }

    /// Creates the entry of a composite tool's step with this id.
    pub(crate) fn of_step(id: Bytes) -> Arc<Self> {
        Self::new(id, true, None)
    }

    fn new(id: Bytes, is_step: bool, request_context: Option<RequestContext>) -> Arc<Self> {
        Arc::new(Self {
            id,
            is_step,
            cancellation: OnceLock::new(),
            hold: TimeoutControl::new(),
            cancelled: Notify::new(),
            departure: OnceLock::new(),
            request_context,
            stream: OnceLock::new(),
        })
    }

    /// Returns the means to cancel the registered request at its backend.
    pub(crate) fn cancellation(&self) -> &Cancellation {
        self.cancellation
            .get()
            .expect("a request that is registered for a backend has its cancellation")
    }

    /// Returns the means to cancel the request, if it is at a backend.
    pub(crate) fn backend_cancellation(&self) -> Option<&Cancellation> {
        self.cancellation.get()
    }

    /// Records that the client cancelled the request or ended its session.
    pub(crate) fn record_cancelled(&self) {
        if let Some(request_context) = &self.request_context {
            request_context.record_cancelled();
        }
    }

    /// Records that the client disconnected before the response. Returns `false` if that is already known.
    pub(crate) fn depart(&self, departure: Disconnect) -> bool {
        self.departure.set(departure).is_ok()
    }

    /// Returns the departure of the client, if it disconnected before the response.
    pub(crate) fn departure(&self) -> Option<&Disconnect> {
        self.departure.get()
    }

    /// Sets the stream for the response. If the client has already disconnected, its absence counts from then on.
    pub(crate) fn set_response_stream(&self, stream: &Arc<Stream>) {
        if let Some(departure) = self.departure() {
            stream.begin_without_client(departure);
        }
        self.stream.set(Arc::clone(stream)).expect("a request has one stream for its response");
    }

    /// Returns `true` if a client is connected for the response.
    pub(super) fn is_attached(&self) -> bool {
        match self.stream.get() {
            Some(stream) => stream.connected(),
            None => self.departure().is_none(),
        }
    }

    /// Returns `true` if this many bytes of an incomplete response may be buffered.
    pub(crate) fn may_buffer(&self, bytes: usize) -> bool {
        match self.stream.get() {
            Some(stream) => stream.may_buffer(bytes),
            None => self.departure().is_none_or(|departure| departure.may_buffer(bytes)),
        }
    }

    /// Returns `true` if the registered request is at the backend of this slot.
    pub(super) fn is_at(&self, slot: &Arc<BackendSessionSlot>) -> bool {
        self.backend_cancellation().is_some_and(|it| Arc::ptr_eq(&it.slot, slot))
    }
}

impl ActiveCallGuard {
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }
}

impl Deref for ActiveCallGuard {
    type Target = ActiveCall;

    fn deref(&self) -> &ActiveCall {
        &self.active
    }
}

impl Drop for ActiveCallGuard {
    fn drop(&mut self) {
        self.session.unregister(&self.active);
        if let Some(cancellation) = self.active.backend_cancellation() {
            cancellation.give_up();
        }
    }
}
