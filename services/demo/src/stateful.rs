//! Stateful generation (MCP 2025-11-25): a client opens a session, in which the server may send messages of its own.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use vmcp_core::{Body, LATEST_STATEFUL};

use crate::http::{
    ProtocolServer, event_stream, json_response, status, stream_response, to_response,
};
use crate::mcp_server::{ClientChannel, McpServer, RpcError};

const SESSION: &str = "mcp-session-id";

/// Maximum number of sessions. A new session evicts the oldest one.
const MAX_SESSIONS: usize = 1024;

/// Maximum number of subscriptions of one session.
const MAX_SUBSCRIPTIONS: usize = 256;

/// Time limit for the response to a server request.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(10);

/// Example server with sessions.
#[derive(Debug)]
pub(crate) struct Stateful<E> {
    example: E,
    sessions: Arc<Sessions>,
}

/// Open sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<String, Arc<Session>>>,
    serial: AtomicU64,
}

/// Session of a client.
#[derive(Debug)]
pub(crate) struct Session {
    number: u64,
    /// `true` if the client accepts server requests.
    can_elicit: bool,
    notifications: Mutex<Option<mpsc::Sender<Value>>>,
    subscribed: Mutex<HashSet<String>>,
    pending: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    serial: AtomicU64,
    all: Weak<Sessions>,
}

/// Response of a client to a server request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ElicitationResult {
    Accept(Value),
    Decline,
    /// The client does not accept server requests.
    Unsupported,
}

impl<E: McpServer> Stateful<E> {
    pub(crate) fn new(example: E) -> Self {
        Self { example, sessions: Arc::default() }
    }

    fn initialize(&self, id: &Value, params: &Value) -> Response<Body> {
        let can_elicit = params["capabilities"]["elicitation"].is_object();
        let Some(name) = self.sessions.open(can_elicit) else {
            return status(StatusCode::SERVICE_UNAVAILABLE);
        };
        let result = json!({
            "protocolVersion": LATEST_STATEFUL,
            "capabilities": E::capabilities(),
            "serverInfo": {"name": E::NAME, "version": env!("CARGO_PKG_VERSION")},
            "instructions": E::INSTRUCTIONS,
        });
        let mut response = json_response(StatusCode::OK, &to_response(id, Ok(result)));
        response.headers_mut().insert(SESSION, name);
        response
    }

    async fn request(
        self: Arc<Self>,
        session: Arc<Session>,
        id: Value,
        method: String,
        params: Value,
    ) -> Response<Body> {
        if method == "ping" {
            return json_response(StatusCode::OK, &to_response(&id, Ok(json!({}))));
        }
        if method == "tools/call" {
            let token = params["_meta"].get("progressToken").cloned();
            return stream_response(
                id,
                |client| async move { self.example.handle(&method, &params, &client).await },
                |messages| ClientChannel { token, messages, session: Some(session) },
            );
        }
        let (messages, _) = mpsc::channel(1);
        let client = ClientChannel { token: None, messages, session: Some(session) };
        let outcome = self.example.handle(&method, &params, &client).await;
        json_response(StatusCode::OK, &to_response(&id, outcome))
    }
}

impl<E: McpServer> ProtocolServer for Stateful<E> {
    type McpServer = E;

    async fn respond(
        self: Arc<Self>,
        http: Method,
        headers: HeaderMap,
        message: Value,
    ) -> Response<Body> {
        let method = message["method"].as_str();
        if method == Some("initialize") {
            return self.initialize(&message["id"], &message["params"]);
        }
        let name = headers.get(SESSION).and_then(|name| name.to_str().ok());
        let Some(name) = name else { return status(StatusCode::BAD_REQUEST) };
        let Some(session) = self.sessions.get(name) else { return status(StatusCode::NOT_FOUND) };
        match (http, message.get("id"), method) {
            (Method::DELETE, ..) => {
                lock(&self.sessions.open).remove(name);
                status(StatusCode::NO_CONTENT)
            }
            (Method::GET, ..) => {
                let (sender, response) = event_stream();
                *lock(&session.notifications) = Some(sender);
                response
            }
            (Method::POST, Some(id), Some(method)) => {
                let (id, method) = (id.clone(), method.to_owned());
                let params = message.get("params").cloned().unwrap_or_default();
                self.request(session, id, method, params).await
            }
            (Method::POST, Some(id), None) => {
                session.complete_request(id, message.get("result"));
                status(StatusCode::ACCEPTED)
            }
            (Method::POST, None, _) => status(StatusCode::ACCEPTED),
            _ => status(StatusCode::METHOD_NOT_ALLOWED),
        }
    }
}

impl Sessions {
    fn get(&self, name: &str) -> Option<Arc<Session>> {
        lock(&self.open).get(name).cloned()
    }

    /// Returns a new session id; `None` if the system has no random numbers.
    fn open(self: &Arc<Self>, can_elicit: bool) -> Option<HeaderValue> {
        let (high, low) = (getrandom::u64().ok()?, getrandom::u64().ok()?);
        let name = format!("{high:016x}{low:016x}");
        let session = Session {
            number: self.serial.fetch_add(1, Ordering::Relaxed),
            can_elicit,
            notifications: Mutex::default(),
            subscribed: Mutex::default(),
            pending: Mutex::default(),
            serial: AtomicU64::default(),
            all: Arc::downgrade(self),
        };
        let mut open = lock(&self.open);
        if open.len() >= MAX_SESSIONS {
            let oldest = open.iter().min_by_key(|(_, session)| session.number);
            let oldest = oldest.map(|(name, _)| name.clone()).unwrap_or_default();
            open.remove(&oldest);
        }
        open.insert(name.clone(), Arc::new(session));
        HeaderValue::from_str(&name).ok()
    }
}

impl Session {
    /// Notifies every session of a changed list.
    pub(crate) fn list_changed(&self, kind: &str) {
        let method = format!("notifications/{kind}/list_changed");
        self.each(|_| Some(json!({"jsonrpc": "2.0", "method": method})));
    }

    /// Notifies the subscribed sessions of a changed resource.
    pub(crate) fn updated(&self, uri: &str) {
        self.each(|session| {
            lock(&session.subscribed).contains(uri).then(|| {
                json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/resources/updated",
                    "params": {"uri": uri},
                })
            })
        });
    }

    pub(crate) fn subscribe(&self, uri: &str, wanted: bool) -> Result<(), RpcError> {
        let mut subscribed = lock(&self.subscribed);
        if !wanted {
            subscribed.remove(uri);
        } else if subscribed.len() >= MAX_SUBSCRIPTIONS {
            return Err(RpcError::invalid("too many subscriptions"));
        } else {
            subscribed.insert(uri.to_owned());
        }
        Ok(())
    }

    /// Sends an elicitation to the client, in the stream of the current request.
    pub(crate) async fn elicit(
        &self,
        messages: &mpsc::Sender<Value>,
        message: &str,
        schema: &Value,
    ) -> ElicitationResult {
        if !self.can_elicit {
            return ElicitationResult::Unsupported;
        }
        let id = self.serial.fetch_add(1, Ordering::Relaxed);
        let (sender, handle) = oneshot::channel();
        lock(&self.pending).insert(id, sender);
        let request = json!({
            "jsonrpc": "2.0",
            "id": id,
            "method": "elicitation/create",
            "params": {"message": message, "requestedSchema": schema},
        });
        let rpc_method = messages.send(request).await;
        let handle = match rpc_method {
            Ok(()) => tokio::time::timeout(RESPONSE_TIMEOUT, handle).await.ok(),
            Err(_) => None,
        };
        lock(&self.pending).remove(&id);
        match handle {
            Some(Ok(response)) if response["action"] == "accept" => {
                ElicitationResult::Accept(response["content"].clone())
            }
            _ => ElicitationResult::Decline,
        }
    }

    fn complete_request(&self, id: &Value, result: Option<&Value>) {
        let waiting = id.as_u64().and_then(|id| lock(&self.pending).remove(&id));
        if let Some(waiting) = waiting {
            // The receiver is gone if the request timed out.
            _ = waiting.send(result.cloned().unwrap_or_default());
        }
    }

    fn each(&self, message: impl Fn(&Session) -> Option<Value>) {
        let Some(all) = self.all.upgrade() else { return };
        for session in lock(&all.open).values() {
            let notifications = lock(&session.notifications).clone();
            if let (Some(notifications), Some(message)) = (notifications, message(session)) {
                // Messages for a client that does not read are dropped when the queue is full.
                _ = notifications.try_send(message);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
