//! State of a fake server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::catalog::Catalog;
use super::{Behavior, PendingRequest, Protocol, SessionLoss};

/// Function that responds to a request, now or later.
pub(super) type Handler = Arc<dyn Fn(PendingRequest) + Send + Sync>;

/// Settings that stay as they are built.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) name: String,
    pub(super) protocol: Protocol,
    pub(super) capabilities: Value,
    pub(super) instructions: Option<String>,
    pub(super) has_streams: bool,
    pub(super) page_size: usize,
    pub(super) endpoint: Option<String>,
    pub(super) is_truncated: bool,
    pub(super) headers: HeaderMap,
}

/// State shared by all requests.
pub(super) struct State {
    pub(super) settings: Settings,
    pub(super) catalog: Mutex<Catalog>,
    /// Handlers by method.
    pub(super) methods: Mutex<BTreeMap<String, Handler>>,
    /// Handlers of `tools/call` by tool.
    pub(super) tools: Mutex<BTreeMap<String, Handler>>,
    pub(super) requests: Mutex<Vec<RecordedRequest>>,
    pub(super) behavior: watch::Sender<Behavior>,
    /// Values of `Authorization` that get 401.
    pub(super) rejected: Mutex<Vec<String>>,
    pub(super) sessions: Mutex<BTreeMap<String, Arc<Session>>>,
    /// Sessions that the client has ended.
    pub(super) ended: Mutex<Vec<String>>,
    pub(super) loss: Mutex<SessionLoss>,
    pub(super) streams: Mutex<Vec<NotificationStream>>,
    /// Number of the last session.
    pub(super) serial: AtomicU64,
    /// One clone for each request in progress and each open stream.
    pub(super) in_flight: Arc<()>,
}

/// Request that a fake server has received.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// The HTTP method.
    pub method: Method,
    /// The path with the query.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, unchanged.
    pub body: Bytes,
    /// Time of arrival.
    pub received_at: Instant,
}

/// Session of a client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    /// `true` after the session has ended.
    pub(super) ended: watch::Sender<bool>,
    /// Completes the session's server request. Every server request has the id 1, as in many servers.
    pub(super) question: Mutex<Option<oneshot::Sender<Value>>>,
}

/// Open stream for notifications.
#[derive(Debug)]
pub(super) struct NotificationStream {
    /// `None` for a stateless client.
    pub(super) session: Option<String>,
    /// Id of the `subscriptions/listen` request of a stateless client.
    pub(super) subscription: Option<Value>,
    pub(super) sender: mpsc::Sender<Bytes>,
}

impl Settings {
    /// Returns the revision of MCP in handshakes.
    pub(super) fn revision(&self) -> &'static str {
        if self.protocol == Protocol::LegacySse { "2024-11-05" } else { "2025-11-25" }
    }
}

impl State {
    pub(super) fn open_session(&self) -> Arc<Session> {
        let number = self.serial.fetch_add(1, Ordering::Relaxed) + 1;
        let id = format!("{}-session-{number}", self.settings.name);
        let (ended, question) = (watch::Sender::new(false), Mutex::default());
        let session = Arc::new(Session { id: id.clone(), ended, question });
        lock(&self.sessions).insert(id, Arc::clone(&session));
        session
    }

    /// Removes a session with its streams. Returns whether it existed.
    pub(super) fn lose_session(&self, id: &str) -> bool {
        let lost = lock(&self.sessions).remove(id);
        lost.inspect(|session| self.close(session)).is_some()
    }

    /// Loses all sessions with their streams.
    pub(super) fn lose_sessions(&self) {
        let lost = std::mem::take(&mut *lock(&self.sessions));
        for session in lost.values() {
            self.close(session);
        }
    }

    fn close(&self, session: &Session) {
        session.ended.send_replace(true);
        lock(&session.question).take();
        lock(&self.streams).retain(|stream| stream.session.as_ref() != Some(&session.id));
    }

    /// Sends a notification on a stream in the form of its transport.
    pub(super) fn notify(&self, stream: &NotificationStream, method: &str, params: &Value) {
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        if !params.is_null() {
            message["params"] = params.clone();
        }
        if let Some(subscription) = &stream.subscription {
            message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] =
                subscription.clone();
        }
        // A closed stream misses its notifications.
        _ = stream.sender.try_send(self.event(&message.to_string()));
    }

    /// Formats a message as an event.
    pub(super) fn event(&self, message: &str) -> Bytes {
        let name =
            if self.settings.protocol == Protocol::LegacySse { "event: message\n" } else { "" };
        format!("{name}data: {message}\n\n").into()
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl RecordedRequest {
    /// Returns the message in the body, or null if it is not JSON.
    #[must_use]
    pub fn message(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the value of a header, or an empty text if it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the whole request as one text, for assertions that it lacks something.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { method, path, headers, body, .. } = self;
        format!("{method} {path}\n{headers:?}\n{}", String::from_utf8_lossy(body))
    }
}

/// A panic elsewhere leaves these tables consistent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
