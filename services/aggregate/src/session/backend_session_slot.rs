//! Session of one client at one stateful backend, opened on first use.

mod mark;
mod shared_entry;

use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::Full;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use vmcp_core::{BoxError, RequestContext};

pub(crate) use self::mark::PendingMarks;
use self::shared_entry::SharedEntry;
use super::leases::{Lease, Leases};
use super::shared::SharedSession;
use crate::backend::BackendHandle;
use crate::backend::handshake::{self, BackendSession, ClientInfo, SessionGuard};
use crate::backend::request::{post, with_operation};
use crate::backend::rpc::{notify_or_log, send_request};
use crate::catalog::define_literal;
use vmcp_core::lock;

/// Time for which a session stays open so that the cancellations of its calls arrive.
const CANCELLATION_TIMEOUT: Duration = Duration::from_secs(1);

/// Closure that returns the log level of the client, as JSON; the level may change at any time.
pub(crate) type LevelSource<'a> = &'a (dyn Fn() -> Option<Box<[u8]>> + Sync);

/// Maximum number of resources that one session can subscribe to at one backend.
const MAX_SUBSCRIPTIONS: usize = 1024;

/// Slot for a session at one backend.
#[derive(Debug)]
pub(crate) struct BackendSessionSlot {
    pub(crate) backend: Arc<BackendHandle>,
    /// `None` before the first use, and once the backend has forgotten the session or the slot has ended.
    backend_session: ArcSwapOption<BackendSession>,
    /// Held while the session is opened, so it is opened once.
    opening: tokio::sync::Mutex<()>,
    extra: Mutex<Option<Box<SubscriptionState>>>,
    leases: Leases,
    /// `true` if the session has opened a user interface of the backend (MCP Apps). Relaxed: it guards no other memory.
    pub(crate) has_open_app: AtomicBool,
    /// `true` until a result has told the client that this backend session is not that of its earlier calls. Relaxed: it
    /// guards no other memory.
    needs_mark: AtomicBool,
    /// Entry in the record of the client's session, if replicas share it.
    shared_entry: Option<SharedEntry>,
}

/// Slot that a call uses. The session of a slot that is retired stays open until the last lease is dropped.
#[derive(Debug)]
pub(crate) struct SlotLease {
    slot: Arc<BackendSessionSlot>,
    _lease: Lease,
}

/// State that few sessions need.
#[derive(Debug, Default)]
struct SubscriptionState {
    /// Resources that the client has subscribed to.
    subscriptions: Vec<Box<str>>,
    listener: Option<AbortHandle>,
    /// Set when the slot has ended; no listener is started afterwards.
    ended: bool,
}

impl BackendSessionSlot {
    pub(crate) fn new(backend: Arc<BackendHandle>) -> Self {
        Self {
            backend,
            backend_session: ArcSwapOption::empty(),
            opening: tokio::sync::Mutex::const_new(()),
            extra: Mutex::new(None),
            leases: Leases::default(),
            has_open_app: AtomicBool::new(false),
            needs_mark: AtomicBool::new(false),
            shared_entry: None,
        }
    }

    /// Shares the backend session with other replicas.
    pub(crate) fn shared(mut self, session: &Arc<SharedSession>) -> Self {
        self.shared_entry = Some(SharedEntry::new(session));
        self
    }

    /// Returns a lease for a call.
    pub(crate) fn lease(self: &Arc<Self>) -> SlotLease {
        SlotLease { slot: Arc::clone(self), _lease: self.leases.lease() }
    }

    /// Returns `true` if calls use the slot.
    pub(crate) fn is_leased(&self) -> bool {
        self.leases.is_any_open()
    }

    /// Returns the session; opens it if necessary.
    pub(crate) async fn backend_session(
        &self,
        client_info: ClientInfo<'_>,
        level: LevelSource<'_>,
    ) -> Result<Arc<BackendSession>, BoxError> {
        match self.backend_session.load_full() {
            Some(backend_session) => {
                backend_session.update_token(client_info.caller);
                Ok(backend_session)
            }
            // Boxed: this runs once per session and should not enlarge the future of every request.
            None => Box::pin(self.open_session(client_info, level)).await,
        }
    }

    async fn open_session(
        &self,
        client_info: ClientInfo<'_>,
        level: LevelSource<'_>,
    ) -> Result<Arc<BackendSession>, BoxError> {
        let _guard = self.opening.lock().await;
        if let Some(backend_session) = self.backend_session.load_full() {
            return Ok(backend_session);
        }
        if let Some(shared) = &self.shared_entry {
            return self.open_shared(shared, client_info, level).await;
        }
        let mut known = None;
        let opened = self.open_new(client_info, level, &mut known).await?;
        Ok(self.publish(opened.keep(), level, &mut known, client_info.cause).await)
    }

    /// Opens a session with the client's log level and subscriptions. `known` becomes the level that was sent.
    async fn open_new(
        &self,
        client_info: ClientInfo<'_>,
        level: LevelSource<'_>,
        known: &mut Option<Box<[u8]>>,
    ) -> Result<SessionGuard, BoxError> {
        let (opened, _) = handshake::open(&self.backend, client_info).await?;
        self.send_state(opened.backend_session(), level, known, client_info.cause).await;
        Ok(opened)
    }

    /// Sends the client's log level and subscriptions to a session. `known` becomes the level that was sent.
    async fn send_state(
        &self,
        backend_session: &BackendSession,
        level: LevelSource<'_>,
        known: &mut Option<Box<[u8]>>,
        cause: Option<&RequestContext>,
    ) {
        self.follow_level(backend_session, level, known, cause).await;
        for uri in self.subscriptions() {
            let uri = String::from_utf8_lossy(&define_literal(&uri)).into_owned();
            let params = format!("{{\"uri\":{uri}}}");
            let subscribed = self.set(backend_session, "resources/subscribe", &params, cause);
            if let Err(error) = subscribed.await {
                let backend = self.backend.name();
                tracing::debug!(backend, %error, "failed to restore a subscription");
            }
        }
    }

    /// Uses a session, to whose backend the level `known` was sent, for the slot's calls.
    async fn publish(
        &self,
        backend_session: Arc<BackendSession>,
        level: LevelSource<'_>,
        known: &mut Option<Box<[u8]>>,
        cause: Option<&RequestContext>,
    ) -> Arc<BackendSession> {
        self.backend_session.store(Some(Arc::clone(&backend_session)));
        // A concurrent `set_level` either did not see this session, so its level is sent here, or sends it.
        self.follow_level(&backend_session, level, known, cause).await;
        backend_session
    }

    /// Sends the log level to a session until the `known` one is current.
    async fn follow_level(
        &self,
        backend_session: &BackendSession,
        level: LevelSource<'_>,
        known: &mut Option<Box<[u8]>>,
        cause: Option<&RequestContext>,
    ) {
        while let Some(level) = level().filter(|_| backend_session.logs)
            && known.as_ref() != Some(&level)
        {
            self.set_level(backend_session, &level, cause).await;
            *known = Some(level);
        }
    }

    /// Sets the log level of a session; `level` is JSON. Rejections by the backend are ignored.
    pub(crate) async fn set_level(
        &self,
        backend_session: &BackendSession,
        level: &[u8],
        cause: Option<&RequestContext>,
    ) {
        let params = format!("{{\"level\":{}}}", String::from_utf8_lossy(level));
        _ = self.set(backend_session, "logging/setLevel", &params, cause).await;
    }

    /// Returns the session if it is open.
    pub(crate) fn open(&self) -> Option<Arc<BackendSession>> {
        self.backend_session.load_full()
    }

    /// Removes a session that the backend has forgotten. Returns `true` if it was still the current one.
    pub(crate) fn gone(&self, backend_session: &Arc<BackendSession>) -> bool {
        let current = self.backend_session.compare_and_swap(backend_session, None);
        current.as_ref().is_some_and(|current| Arc::ptr_eq(current, backend_session))
    }

    /// Sends a small request of the gateway itself.
    pub(crate) async fn set(
        &self,
        backend_session: &BackendSession,
        method: &'static str,
        params: &str,
        cause: Option<&RequestContext>,
    ) -> Result<(), BoxError> {
        let id = self.backend.request_id();
        let message =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let request =
            backend_session.sign(post(&self.backend, &backend_session.caller(), message.into()));
        send_request(&self.backend, with_operation(request, method, cause), &id).await.map(drop)
    }

    /// Returns `true` if the subscription is already stored or there is capacity for it.
    pub(crate) fn may_subscribe(&self, uri: &str) -> bool {
        lock(&self.extra).as_ref().is_none_or(|extra| {
            let known = &extra.subscriptions;
            known.len() < MAX_SUBSCRIPTIONS || known.iter().any(|known| **known == *uri)
        })
    }

    /// Adds or removes a resource subscription. Beyond the limit, none is added.
    pub(crate) fn subscribe(&self, uri: &str, wanted: bool) {
        let mut extra = lock(&self.extra);
        let subscriptions = &mut extra.get_or_insert_default().subscriptions;
        subscriptions.retain(|known| **known != *uri);
        if wanted && subscriptions.len() < MAX_SUBSCRIPTIONS {
            subscriptions.push(uri.into());
        }
    }

    pub(crate) fn subscriptions(&self) -> Vec<Box<str>> {
        lock(&self.extra).as_ref().map_or_else(Vec::new, |extra| extra.subscriptions.clone())
    }

    /// Starts the listener with `start`, unless one is running or the slot has ended.
    pub(crate) fn listen_with(&self, start: impl FnOnce() -> AbortHandle) {
        let mut extra = lock(&self.extra);
        let SubscriptionState { listener, ended, .. } = &mut **extra.get_or_insert_default();
        if !*ended && listener.as_ref().is_none_or(AbortHandle::is_finished) {
            *listener = Some(start());
        }
    }

    /// Stops the listener.
    pub(crate) fn stop_listening(&self) {
        if let Some(extra) = &mut *lock(&self.extra)
            && let Some(listener) = extra.listener.take()
        {
            listener.abort();
        }
    }

    /// Ends the session in the background, after sending `cancels`.
    pub(crate) fn close(&self, cancels: Vec<Request<Full<Bytes>>>) {
        self.end_listening();
        self.leave(false, cancels, false);
    }

    /// Forgets the session after sending `cancels`, and ends it unless replicas share it.
    pub(crate) fn release(&self, cancels: Vec<Request<Full<Bytes>>>) {
        self.end_listening();
        self.leave(false, cancels, self.entry_tag().is_some());
    }

    /// Ends the session after its calls, unless replicas share it: each call completes with the configuration it began with.
    pub(crate) fn retire(&self) {
        self.end_listening();
        self.leave(true, Vec::new(), self.entry_tag().is_some());
    }

    /// Ends a session that the slot has left, in the background after the calls that use it.
    fn end_after_calls(&self, backend_session: Arc<BackendSession>) {
        if !backend_session.can_end() {
            return;
        }
        let (backend, leases) = (Arc::clone(&self.backend), self.leases.clone());
        self.backend.spawn_close(async move {
            leases.ended().await;
            backend_session.close(&backend).await;
        });
    }

    /// Stops the listener permanently.
    fn end_listening(&self) {
        lock(&self.extra).get_or_insert_default().ended = true;
        self.stop_listening();
    }

    /// Ends the session in the background, unless it `is_kept` for other replicas.
    fn leave(&self, patiently: bool, cancels: Vec<Request<Full<Bytes>>>, is_kept: bool) {
        let backend_session = self.backend_session.swap(None);
        if let Some(shared) = &self.shared_entry {
            // The backend has not forgotten it: a call in flight that needs the session takes it over again.
            shared.forget();
        }
        let Some(backend_session) =
            backend_session.filter(|backend_session| backend_session.can_end())
        else {
            return;
        };
        if is_kept && cancels.is_empty() {
            return;
        }
        let (backend, leases) = (Arc::clone(&self.backend), self.leases.clone());
        self.backend.spawn_close(async move {
            if patiently {
                leases.ended().await;
            }
            let cancels = cancels.into_iter().map(|cancel| {
                notify_or_log(&backend, cancel, "failed to cancel a call at a backend")
            });
            if timeout(CANCELLATION_TIMEOUT, join_all(cancels)).await.is_err() {
                tracing::debug!(backend = backend.name(), "cancellations did not arrive in time");
            }
            if !is_kept {
                backend_session.close(&backend).await;
            }
        });
    }
}

impl Deref for SlotLease {
    type Target = Arc<BackendSessionSlot>;

    fn deref(&self) -> &Self::Target {
        &self.slot
    }
}

/// Ends a session that a call in flight opened after the slot was closed.
impl Drop for BackendSessionSlot {
    fn drop(&mut self) {
        self.leave(true, Vec::new(), self.entry_tag().is_some());
    }
}
