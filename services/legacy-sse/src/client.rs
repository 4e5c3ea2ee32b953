//! Table of clients with an open event stream.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{Extensions, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use vmcp_core::{
    BodyBuffer, BudgetOwner, ByteBudget, Identity, MAX_BUDGET_WAIT, Rejection, Reservation, code,
    lock,
};
use vmcp_decode::DecodeLayer;
use vmcp_session::SessionId;

use crate::{EVENT_STREAM, LAST_EVENT_ID, SESSION_ID};

/// Maximum number of concurrent messages of one client.
const MAX_CONCURRENT_MESSAGES: usize = 64;

/// Capacity of a client's message queue. Senders wait while it is full.
const QUEUE_CAPACITY: usize = 64;

/// Table of clients by session identifier.
#[derive(Debug)]
pub struct ClientTable {
    open: Mutex<HashMap<SessionId, Arc<Client>>>,
    max_clients: usize,
    decode: DecodeLayer,
    draining: AtomicBool,
}

/// State of one client.
#[derive(Debug)]
pub(crate) struct Client {
    id: SessionId,
    owner: Identity,
    /// Headers of the request that opened the stream.
    headers: HeaderMap,
    /// MCP session of the client, set by the response to `initialize`.
    session: OnceLock<HeaderValue>,
    /// Set when the client's first `initialize` request arrives.
    is_initializing: AtomicBool,
    has_notifications: AtomicBool,
    permits: Arc<Semaphore>,
    /// Byte budget for messages to the client, and the owner of the share.
    budget: Option<(ByteBudget, BudgetOwner)>,
    /// Queue of outgoing messages; `None` once the stream is closing. It ends after the last response.
    queue: Mutex<Option<Sender<Bytes>>>,
}

/// Permit to send on the stream.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    queue: Sender<Bytes>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl ClientTable {
    /// Creates a table of at most `max_clients` clients, whose messages are decoded by `decode`.
    #[must_use]
    pub fn new(max_clients: usize, decode: DecodeLayer) -> Self {
        Self { open: Mutex::default(), max_clients, decode, draining: AtomicBool::new(false) }
    }

    /// Returns the number of open streams.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.open).len()
    }

    /// Returns `true` if no stream is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn decode(&self) -> &DecodeLayer {
        &self.decode
    }

    /// Closes the streams. Each ends after the pending responses.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        lock(&self.open).values().for_each(|client| client.close());
    }

    pub(crate) fn open(
        &self,
        owner: Identity,
        headers: HeaderMap,
        extensions: &Extensions,
    ) -> Result<(Arc<Client>, Receiver<Bytes>), Rejection> {
        let id = SessionId::random().ok_or_else(Rejection::internal)?;
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        let client = Arc::new(Client {
            id,
            owner,
            headers,
            session: OnceLock::new(),
            is_initializing: AtomicBool::new(false),
            has_notifications: AtomicBool::new(false),
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT_MESSAGES)),
            budget: self.decode.byte_budget().map(|it| (it.clone(), it.owner(extensions))),
            queue: Mutex::new(Some(sender)),
        });
        let mut open = lock(&self.open);
        if open.len() >= self.max_clients || self.draining.load(Ordering::Acquire) {
            return Err(Rejection::overloaded("all streams at /sse are in use", 30));
        }
        open.insert(id, Arc::clone(&client));
        Ok((client, receiver))
    }

    pub(crate) fn find(&self, id: &str, caller: &Identity) -> Option<Arc<Client>> {
        let id = SessionId::parse(id.as_bytes())?;
        lock(&self.open).get(&id).filter(|client| client.owner == *caller).cloned()
    }

    pub(crate) fn remove(&self, client: &Client) {
        lock(&self.open).remove(&client.id);
    }
}

impl Client {
    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// Acquires a permit for one message.
    pub(crate) fn acquire_permit(&self) -> Result<StreamPermit, Rejection> {
        let queue = lock(&self.queue).clone().ok_or_else(stream_not_found)?;
        match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => Ok(StreamPermit { queue, _permit: Some(permit) }),
            Err(_) => Err(Rejection::overloaded("too many messages are being answered", 1)),
        }
    }

    /// Returns the permit of the notification stream on the first call.
    pub(crate) fn notification_permit(&self) -> Option<StreamPermit> {
        let queue = lock(&self.queue).clone()?;
        let first = !self.has_notifications.swap(true, Ordering::AcqRel);
        first.then_some(StreamPermit { queue, _permit: None })
    }

    /// Begins initialization. Returns `false` if it has begun already.
    pub(crate) fn begin_initialize(&self) -> bool {
        !self.is_initializing.swap(true, Ordering::AcqRel)
    }

    /// Permits another `initialize` request after one that failed.
    pub(crate) fn reset_initialize(&self) {
        self.is_initializing.store(false, Ordering::Release);
    }

    pub(crate) fn set_session(&self, session: HeaderValue) {
        // There is one `initialize` request at a time, and none after success.
        _ = self.session.set(session);
    }

    pub(crate) fn session(&self) -> Option<HeaderValue> {
        self.session.get().cloned()
    }

    pub(crate) fn has_session(&self) -> bool {
        self.session.get().is_some()
    }

    /// Builds a request on behalf of the client within its session; `None` without a session.
    pub(crate) fn session_request(
        &self,
        method: Method,
        last_event_id: Option<HeaderValue>,
    ) -> Option<Request<Full<Bytes>>> {
        let session = self.session()?;
        let mut request = Request::new(Full::default());
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from_static("/mcp");
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, EVENT_STREAM);
        headers.insert(SESSION_ID, session);
        if let Some(last_event_id) = last_event_id {
            headers.insert(LAST_EVENT_ID, last_event_id);
        }
        request.extensions_mut().insert(self.owner.clone());
        Some(request)
    }

    /// Charges a message to the byte budget until it was sent. Returns `None` if the budget has no room for it.
    pub(crate) async fn charge(&self, message: Bytes) -> Option<Bytes> {
        let Some(mut reservation) = self.reservation() else {
            return Some(message);
        };
        grow(&mut reservation, message.len()).await.then(|| reservation.attach(message))
    }

    /// Reserves what `buffer` needs. Returns `None` if the budget has no room for it in time.
    pub(crate) async fn reserve(&self, buffer: &mut BodyBuffer) -> Option<()> {
        let Some((budget, owner)) = self.budget.as_ref().filter(|_| buffer.missing() > 0) else {
            return Some(());
        };
        let reserving = buffer.reserve(|| budget.open(*owner));
        let reserved = tokio::time::timeout(MAX_BUDGET_WAIT, reserving).await;
        if !matches!(reserved, Ok(Ok(()))) {
            budget.count_rejection();
            return None;
        }
        Some(())
    }

    /// Returns an empty reservation for messages to the client; `None` without a budget.
    pub(crate) fn reservation(&self) -> Option<Reservation> {
        self.budget.as_ref().map(|(budget, owner)| budget.open(*owner))
    }

    /// Closes the queue.
    pub(crate) fn close(&self) {
        lock(&self.queue).take();
    }

    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.queue).is_none()
    }
}

impl StreamPermit {
    /// Sends a message when the queue has room. Returns `true` if the stream is still open.
    pub(crate) async fn send(&self, message: Bytes) -> bool {
        self.queue.send(message).await.is_ok()
    }

    /// Completes when the client has closed its stream.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let queue = self.queue.clone();
        async move { queue.closed().await }
    }
}

/// Reserves `bytes` in total. Returns `false` if the budget has no room for them in time.
pub(crate) async fn grow(reservation: &mut Reservation, bytes: usize) -> bool {
    let more = bytes.saturating_sub(reservation.bytes());
    let reserving = tokio::time::timeout(MAX_BUDGET_WAIT, reservation.grow(more));
    let has_room = matches!(reserving.await, Ok(Ok(())));
    if !has_room {
        reservation.budget().count_rejection();
    }
    has_room
}

pub(crate) fn stream_not_found() -> Rejection {
    let message = "no stream with this sessionId is open: GET /sse opens one";
    Rejection::new(StatusCode::NOT_FOUND, code::INVALID_REQUEST, message)
}
