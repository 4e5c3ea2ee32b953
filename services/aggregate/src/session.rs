//! State of a stateful client between its requests. Most sessions are idle, so streams and tables are allocated on first use.

mod active_call;
pub(crate) mod backend_session_slot;
pub(crate) mod cancellation;
mod end;
mod gateway_request;
mod id_form;
mod leases;
mod restored;
mod sealed_capabilities;
mod server_requests;
pub(crate) mod shared;
pub(crate) mod stateless_sessions;
pub(crate) mod store;
pub(crate) mod streams;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use http::StatusCode;
use tracing::Instrument;
use vmcp_core::{Caller, Rejection, RequestContext, code};
use vmcp_session::StorageError;
use vmcp_timeout::PauseGuard;

pub(crate) use self::active_call::{ActiveCall, ActiveCallGuard};
pub(crate) use self::backend_session_slot::{BackendSessionSlot, PendingMarks, SlotLease};
use self::cancellation::Cancellation;
pub(crate) use self::end::SessionEnd;
pub(crate) use self::gateway_request::{GatewayRequest, GatewayRequestError};
pub(crate) use self::id_form::{IdForm, ReceivedId, ServerRequestId, replica_of};
pub(crate) use self::server_requests::PendingServerRequest;
use self::shared::SharedSession;
pub(crate) use self::streams::SessionStreams;
use crate::backend::BackendHandle;
use crate::backend::handshake::{ClientInfo, update_token};
use crate::backend::request::{post, with_operation};
use crate::backend::rpc::notify_or_log;
use crate::catalog::Kind;
use crate::settings::Transport;
use crate::stream::MessageClass;
use crate::stream::detached::{ClientAccount, ClientBudgets};
use vmcp_core::lock;

/// Maximum number of concurrent requests of one session, without the steps of its composite tools.
const MAX_CALLS: usize = 256;

/// Session of a stateful client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) revision: &'static str,
    /// Owner of the session, with its most recent token.
    caller: Mutex<Caller>,
    /// Address from which the session was opened, if known.
    address: Option<IpAddr>,
    capabilities: Box<[u8]>,
    client: Box<[u8]>,
    /// Sealed part of the session's id, if it has one.
    sealed: Option<Box<[u8]>>,
    /// `true` if the session was opened by another process, or was evicted from this one.
    is_restored: bool,
    /// Record of the session, if replicas share it.
    shared: Option<Arc<SharedSession>>,
    /// `true` if the client may have missed changes of lists while it had no notification stream here. Relaxed: it guards no other
    /// memory.
    may_have_missed: AtomicBool,
    /// Form of the ids that the client returns.
    ids: IdForm,
    /// At most one slot for each backend.
    backend_slots: Mutex<Vec<Arc<BackendSessionSlot>>>,
    /// Requests at backends; each is removed by its [`ActiveCallGuard`].
    calls: Mutex<Vec<Arc<ActiveCall>>>,
    streams: OnceLock<Box<SessionStreams>>,
    /// Log level that the client set, as JSON. That of a session that replicas share is in its record.
    level: Mutex<Option<Box<[u8]>>>,
    /// A [`SessionEnd`], or 0. Never reset, and set before the tables are cleared: an insertion under a table's lock either sees it
    /// or is removed by the clearing.
    ended: AtomicU8,
}

impl Session {
    pub(crate) fn new(
        revision: &'static str,
        caller: Caller,
        address: Option<IpAddr>,
        capabilities: &[u8],
        client: &[u8],
    ) -> Self {
        Self {
            revision,
            caller: Mutex::new(caller),
            address,
            capabilities: capabilities.into(),
            client: client.into(),
            sealed: None,
            is_restored: false,
            shared: None,
            may_have_missed: AtomicBool::new(false),
            ids: IdForm::Serial,
            backend_slots: Mutex::default(),
            calls: Mutex::default(),
            streams: OnceLock::new(),
            level: Mutex::default(),
            ended: AtomicU8::new(0),
        }
    }

    /// Returns the client information for backends.
    pub(crate) fn client_info<'a>(&'a self, caller: &'a Caller) -> ClientInfo<'a> {
        let (capabilities, client) = (&*self.capabilities, &*self.client);
        ClientInfo { caller, capabilities, client, cause: None, address: self.address }
    }

    /// Returns the owner, with its most recent token.
    pub(crate) fn caller(&self) -> Caller {
        lock(&self.caller).clone()
    }

    /// Returns the accounts for messages to the client.
    pub(crate) fn account(&self, budgets: &ClientBudgets) -> ClientAccount {
        budgets.account(self.caller().identity(), self.address)
    }

    /// Stores a newer token of the owner, for requests to backends that no client request causes.
    pub(crate) fn update_token(&self, caller: &Caller) {
        update_token(&self.caller, caller);
    }

    /// Returns the client's capabilities, as JSON.
    pub(crate) fn capabilities(&self) -> &[u8] {
        &self.capabilities
    }

    /// Returns this session's slot for a backend session; creates it if necessary.
    pub(crate) fn slot(&self, backend: &Arc<BackendHandle>) -> Arc<BackendSessionSlot> {
        let mut backend_slots = lock(&self.backend_slots);
        if let Some(known) = backend_slots.iter().find(|known| known.backend.id == backend.id) {
            return Arc::clone(known);
        }
        let slot = BackendSessionSlot::new(Arc::clone(backend));
        let slot = Arc::new(match &self.shared {
            // A session of HTTP+SSE is its connection.
            Some(shared) if backend.transport != Transport::Sse => slot.shared(shared),
            _ if self.is_restored => slot.with_mark(),
            _ => slot,
        });
        // Checked under the lock: an entry inserted before the backend is retired or the session ends is removed afterwards. A
        // request that began earlier gets a slot of its own, which is not stored.
        if backend.is_retired() || self.has_ended() {
            slot.retire();
            return slot;
        }
        backend_slots.push(Arc::clone(&slot));
        // `Vec` growth would waste more memory than the usual one to five entries occupy.
        backend_slots.shrink_to_fit();
        slot
    }

    pub(crate) fn backend_slots(&self) -> Vec<Arc<BackendSessionSlot>> {
        lock(&self.backend_slots).clone()
    }

    /// Registers a request to a backend, unless the session has ended or has too many. A request that is sent to the backend once
    /// more keeps its slot.
    pub(crate) fn register(
        self: &Arc<Self>,
        active: &Arc<ActiveCall>,
        backend: &Arc<BackendHandle>,
        cause: Option<&RequestContext>,
    ) -> Result<ActiveCallGuard, Rejection> {
        active.cancellation.get_or_init(|| {
            Cancellation::new(self.slot(backend).lease(), active.id.clone(), cause)
        });
        self.register_local(active)
    }

    /// Registers a request that the gateway handles itself, unless the session has ended or has too many.
    pub(crate) fn register_local(
        self: &Arc<Self>,
        active: &Arc<ActiveCall>,
    ) -> Result<ActiveCallGuard, Rejection> {
        let mut calls = lock(&self.calls);
        if self.has_ended() {
            return Err(self.ended_rejection());
        }
        if !active.is_step && is_full(&calls) {
            let message = "too many requests of this session are in flight";
            return Err(Rejection::overloaded(message, 1));
        }
        calls.push(Arc::clone(active));
        Ok(ActiveCallGuard { session: Arc::clone(self), active: Arc::clone(active) })
    }

    /// Removes a request from the table.
    fn unregister(&self, active: &Arc<ActiveCall>) {
        let mut calls = lock(&self.calls);
        if let Some(index) = calls.iter().position(|it| Arc::ptr_eq(it, active)) {
            calls.swap_remove(index);
        }
        if calls.is_empty() {
            calls.shrink_to_fit();
        }
    }

    /// Returns the registered request with this id.
    pub(crate) fn active_call(&self, id: &[u8]) -> Option<Arc<ActiveCall>> {
        lock(&self.calls).iter().find(|active| active.id == id).cloned()
    }

    /// Pauses the timeouts of all requests in flight at a backend.
    pub(crate) fn pause(&self, slot: &Arc<BackendSessionSlot>) -> Vec<PauseGuard> {
        let calls = lock(&self.calls);
        calls.iter().filter(|call| call.is_at(slot)).map(|call| call.hold.pause()).collect()
    }

    /// Returns the streams and server requests; creates the tables on first use.
    pub(crate) fn streams(&self) -> &SessionStreams {
        self.streams.get_or_init(|| Box::new(SessionStreams::new(self.ids.clone())))
    }

    /// Returns the streams and server requests, if they were ever used.
    pub(crate) fn existing_streams(&self) -> Option<&SessionStreams> {
        self.streams.get().map(|streams| &**streams)
    }

    /// Sets the log level that the client wants, JSON.
    pub(crate) async fn set_level(&self, level: &str) -> Result<(), StorageError> {
        match &self.shared {
            Some(shared) => shared.store_level(level).await?,
            None => *lock(&self.level) = Some(level.as_bytes().into()),
        }
        Ok(())
    }

    /// Returns the log level that the client set, as JSON.
    pub(crate) fn level(&self) -> Option<Box<[u8]>> {
        match &self.shared {
            Some(shared) => shared.level(),
            None => lock(&self.level).clone(),
        }
    }

    /// Notifies the client of changed lists if it has a notification stream.
    pub(crate) fn lists_changed(&self, changes: &[Kind]) {
        let Some(stream) = self.existing_streams().and_then(SessionStreams::listening) else {
            return;
        };
        for method in methods(changes) {
            let message = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
            stream.push(message.into(), MessageClass::Coalesced);
        }
    }

    /// Notifies the client of each list once, on the first stream after it may have missed changes.
    pub(crate) fn report_missed_changes(&self) {
        if self.may_have_missed.swap(false, Ordering::Relaxed) {
            self.lists_changed(&Kind::ALL);
        }
    }

    /// Ends the sessions with backends that are no longer configured.
    pub(crate) fn retain_backends(&self, backends: &[Arc<BackendHandle>]) {
        let mut backend_slots = lock(&self.backend_slots);
        let (kept, gone): (Vec<_>, Vec<_>) = backend_slots
            .drain(..)
            .partition(|slot| backends.iter().any(|backend| backend.id == slot.backend.id));
        *backend_slots = kept;
        drop(backend_slots);
        for slot in gone {
            slot.retire();
        }
    }

    /// Returns `true` if a client is connected for a response or for notifications.
    pub(crate) fn is_in_use(&self) -> bool {
        let listens = || {
            self.existing_streams()
                .and_then(SessionStreams::listening)
                .is_some_and(|stream| stream.connected())
        };
        // The client of a step is that of its composite tool, which is in the table too.
        let is_attached = |call: &Arc<ActiveCall>| !call.is_step && call.is_attached();
        lock(&self.calls).iter().any(is_attached) || listens()
    }

    /// Ends the notification stream; calls continue.
    pub(crate) fn end_notification_stream(&self) {
        if let Some(stream) = self.existing_streams().and_then(SessionStreams::listening) {
            stream.end();
        }
    }

    /// Removes ended streams. A server request is answered with an error if its stream has ended or the client has not
    /// responded for `timeout`, which resumes the timeouts of dependent calls.
    pub(crate) fn prune(&self, timeout: Duration) {
        for server_request in
            self.existing_streams().map(|streams| streams.prune(timeout)).into_iter().flatten()
        {
            let PendingServerRequest::Backend { slot, backend_session, id, .. } = server_request
            else {
                continue;
            };
            let message = "the client did not respond in time";
            let rejection = Rejection::new(StatusCode::OK, code::INTERNAL, message);
            let request = backend_session.sign(post(
                &slot.backend,
                &backend_session.caller(),
                rejection.to_json(Some(&id)),
            ));
            let notifying = async move {
                let request = with_operation(request, "", None);
                notify_or_log(&slot.backend, request, "failed to reject a server request").await;
            };
            tokio::spawn(notifying.in_current_span());
        }
    }
}

/// Returns `true` if the client has as many requests in flight as it may. Steps are not requests of the client.
fn is_full(calls: &[Arc<ActiveCall>]) -> bool {
    calls.len() >= MAX_CALLS && calls.iter().filter(|call| !call.is_step).count() >= MAX_CALLS
}

/// Returns the distinct notification methods for these changes.
pub(crate) fn methods(changes: &[Kind]) -> Vec<&'static str> {
    let mut methods: Vec<_> = changes
        .iter()
        .map(|kind| match kind {
            Kind::Tools => "notifications/tools/list_changed",
            Kind::Prompts => "notifications/prompts/list_changed",
            Kind::Resources | Kind::Templates => "notifications/resources/list_changed",
        })
        .collect();
    methods.dedup();
    methods
}
