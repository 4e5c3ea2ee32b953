//! Requests that wait for a response.

use std::fmt;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::response::{broken_response, event_stream, full_response};
use super::state::{Session, State, lock};
use crate::http_listener::BoxResponse;

/// Request that waits for its response. Dropping it leaves the client without one.
#[must_use = "a dropped request gets no response"]
pub struct PendingRequest {
    pub(super) state: Arc<State>,
    pub(super) session: Option<Arc<Session>>,
    pub(super) headers: HeaderMap,
    pub(super) message: Value,
    pub(super) is_stateless: bool,
    pub(super) reply: Reply,
    pub(super) in_flight: Weak<()>,
}

/// Way of the messages to the client.
pub(super) enum Reply {
    /// The HTTP response has not begun.
    Head(oneshot::Sender<BoxResponse>),
    /// An event stream is open.
    Stream(mpsc::Sender<Bytes>),
    /// The response has been sent.
    Done,
}

#[expect(
    clippy::must_use_candidate,
    reason = "most handlers do not care whether the client is still connected"
)]
impl PendingRequest {
    /// Returns the JSON-RPC request.
    #[must_use]
    pub fn message(&self) -> &Value {
        &self.message
    }

    /// Returns the method.
    #[must_use]
    pub fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    /// Returns the parameters.
    #[must_use]
    pub fn params(&self) -> &Value {
        &self.message["params"]
    }

    /// Returns an argument of a tool call, or null.
    #[must_use]
    pub fn argument(&self, name: &str) -> &Value {
        &self.params()["arguments"][name]
    }

    /// Returns the HTTP headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the session's id, or `None` for a stateless client.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.session.as_ref().map(|session| &*session.id)
    }

    /// Returns `true` for a client of the stateless generation.
    #[must_use]
    pub fn is_stateless(&self) -> bool {
        self.is_stateless
    }

    /// Returns `true` if an event stream is open or the response has been sent.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        !matches!(self.reply, Reply::Head(_))
    }

    /// Returns `true` if the client has dropped the request.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match &self.reply {
            Reply::Head(head) => head.is_closed(),
            Reply::Stream(stream) => stream.is_closed(),
            Reply::Done => true,
        }
    }

    /// Sends a message before the response, on an event stream that this opens if necessary. Waits while the stream is
    /// full. Returns whether the client is connected.
    pub async fn send(&mut self, message: &Value) -> bool {
        let event = self.state.event(&message.to_string());
        match self.stream() {
            Some(stream) => stream.send(event).await.is_ok(),
            None => false,
        }
    }

    /// Sends a message like [`send`](Self::send), without waiting. Returns `false` also for a full stream.
    pub fn try_send(&mut self, message: &Value) -> bool {
        let event = self.state.event(&message.to_string());
        self.try_send_raw(event)
    }

    /// Sends bytes on the event stream, which this opens if necessary.
    pub fn try_send_raw(&mut self, bytes: impl Into<Bytes>) -> bool {
        self.stream().is_some_and(|stream| stream.try_send(bytes.into()).is_ok())
    }

    /// Sends progress, if the client has asked for it.
    pub fn report_progress(&mut self, progress: Value) -> bool {
        let token = &self.params()["_meta"]["progressToken"];
        if token.is_null() {
            return !self.is_cancelled();
        }
        let mut params = progress;
        params["progressToken"] = token.clone();
        self.notify("notifications/progress", &params)
    }

    /// Sends a notification before the response, without waiting.
    pub fn notify(&mut self, method: &str, params: &Value) -> bool {
        self.try_send(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }

    /// Sends a server request and waits for the client's result. Returns `None` if the session ends.
    ///
    /// # Panics
    /// Panics for a stateless client, which gets no server requests.
    pub async fn request(&mut self, method: &str, params: Value) -> Option<Value> {
        let session = self.session.clone().expect("only a stateful client gets server requests");
        let (sender, result) = oneshot::channel();
        *lock(&session.question) = Some(sender);
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.send(&message).await;
        result.await.ok()
    }

    /// Waits until the session ends; forever for a stateless client.
    pub async fn session_ended(&self) {
        match &self.session {
            // An error means that the session has ended and is gone.
            Some(session) => _ = session.ended.subscribe().wait_for(|ended| *ended).await,
            None => std::future::pending().await,
        }
    }

    /// Ends the session with its streams, without a response, like a crashed server.
    pub fn end_session(self) {
        if let Some(session) = &self.session {
            self.state.lose_session(&session.id);
        }
    }

    /// Responds with a result, to which this adds the mandatory members of the stateless generation. Returns whether the
    /// client is connected.
    pub fn succeed(self, result: &Value) -> bool {
        let object = result.to_string();
        let members = object.strip_prefix('{').and_then(|object| object.strip_suffix('}'));
        self.succeed_with(members.expect("a result is an object"))
    }

    /// Responds with a result of these members, which are sent unchanged.
    pub fn succeed_with(self, members: &str) -> bool {
        let text = self.result(members);
        if self.state.settings.is_truncated {
            let half = text[..text.len() / 2].to_owned();
            return self.respond(broken_response("application/json", half));
        }
        self.complete(&text)
    }

    /// Responds with a JSON-RPC error.
    pub fn fail(self, code: i64, message: &str) -> bool {
        let error = json!({"code": code, "message": message});
        let message = json!({"jsonrpc": "2.0", "id": self.message["id"], "error": error});
        // MCP 2026-07-28 maps an unknown method to 404.
        if self.is_stateless && code == -32601 && !self.has_begun() {
            let text = message.to_string();
            return self.respond(full_response(StatusCode::NOT_FOUND, "application/json", text));
        }
        self.complete(&message.to_string())
    }

    /// Responds with an HTTP response.
    ///
    /// # Panics
    /// Panics if the response has begun.
    pub fn respond(mut self, response: BoxResponse) -> bool {
        assert!(!self.has_begun(), "the response has begun");
        match std::mem::replace(&mut self.reply, Reply::Done) {
            Reply::Head(head) => head.send(response).is_ok(),
            Reply::Stream(_) | Reply::Done => false,
        }
    }

    /// Returns the message with a result of these members.
    pub(super) fn result(&self, members: &str) -> String {
        let id = &self.message["id"];
        let mut all = String::new();
        if self.is_stateless {
            for (name, value) in
                [("resultType", "\"complete\""), ("ttlMs", "0"), ("cacheScope", "\"private\"")]
            {
                if !members.contains(&format!("\"{name}\"")) {
                    all.extend(["\"", name, "\":", value, ","]);
                }
            }
        }
        all += members;
        let all = all.trim_end_matches(',');
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{all}}}}}"#)
    }

    /// Sends the last message.
    pub(super) fn complete(mut self, message: &str) -> bool {
        match std::mem::replace(&mut self.reply, Reply::Done) {
            Reply::Head(head) => {
                let message = message.to_owned();
                head.send(full_response(StatusCode::OK, "application/json", message)).is_ok()
            }
            Reply::Stream(stream) => stream.try_send(self.state.event(message)).is_ok(),
            Reply::Done => false,
        }
    }

    /// Returns the event stream, which this opens if necessary. Returns `None` after the response.
    fn stream(&mut self) -> Option<&mpsc::Sender<Bytes>> {
        self.reply = match std::mem::replace(&mut self.reply, Reply::Done) {
            Reply::Head(head) => {
                let (response, stream) = event_stream(self.in_flight.upgrade());
                // The closed stream tells the caller that the client is gone.
                _ = head.send(response);
                Reply::Stream(stream)
            }
            other => other,
        };
        match &self.reply {
            Reply::Stream(stream) => Some(stream),
            Reply::Head(_) | Reply::Done => None,
        }
    }
}

impl fmt::Debug for PendingRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRequest").field("message", &self.message).finish_non_exhaustive()
    }
}
