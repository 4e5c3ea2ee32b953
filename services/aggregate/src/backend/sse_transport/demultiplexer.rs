//! Demultiplexer for the messages of a channel.
//!
//! Streamable HTTP has a stream for each request; an HTTP+SSE channel delivers all messages on one. Responses are matched to
//! requests by id, progress notifications by token. The protocol does not correlate other messages: server requests and log
//! messages go to the call in flight if there is exactly one, otherwise to the listener for unsolicited messages, otherwise to
//! the latest call.

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use vmcp_timeout::{PauseGuard, TimeoutControl};
use vmcp_wire::{Envelope, Key, Params, Span, find, scan};

use super::message_queue::{MessageQueue, Priority};
use vmcp_core::lock;

/// Maximum number of pending requests.
pub(crate) const MAX_PENDING_REQUESTS: usize = 256;

/// Maximum number of server requests that pause the timeouts of calls.
const MAX_PENDING_SERVER_REQUESTS: usize = 64;

/// Demultiplexer for one channel.
#[derive(Debug, Default)]
pub(crate) struct Demultiplexer {
    state: Mutex<State>,
    /// Queue for messages that belong to no request.
    pub(crate) standing: Arc<MessageQueue>,
}

#[derive(Debug, Default)]
struct State {
    /// Pending requests, oldest first.
    pending: Vec<Entry>,
    /// Pending server requests on which all calls in flight may depend.
    server_requests: Vec<PendingServerRequest>,
    is_closed: bool,
}

/// Server request without a response yet.
#[derive(Debug)]
struct PendingServerRequest {
    id: Bytes,
    /// Queue that received it. The server request ends with the call of that queue.
    queue: Arc<MessageQueue>,
    _pauses: Vec<PauseGuard>,
}

#[derive(Debug)]
struct Entry {
    id: Bytes,
    token: Option<Bytes>,
    /// `true` if the backend may send server requests while it processes this request.
    may_receive_requests: bool,
    timeout_control: Option<TimeoutControl>,
    queue: Arc<MessageQueue>,
}

/// Error for requests that cannot be sent on the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnqueueError {
    /// The channel is closed.
    Closed,
    /// Too many requests are pending, or one with the same id.
    Full,
}

impl Demultiplexer {
    /// Registers the request `message` with these parts and returns the queue for its messages.
    pub(crate) fn enter(
        &self,
        message: &Bytes,
        id: Span,
        method: &str,
        params: &Params,
        timeout_control: Option<TimeoutControl>,
    ) -> Result<Arc<MessageQueue>, EnqueueError> {
        let id = id.slice(message);
        let mut state = self.lock();
        if state.is_closed {
            return Err(EnqueueError::Closed);
        }
        if state.pending.len() >= MAX_PENDING_REQUESTS
            || state.pending.iter().any(|entry| entry.id == id)
        {
            return Err(EnqueueError::Full);
        }
        let token = params
            .get(Key::Meta)
            .and_then(|meta| find(meta.of(message), "progressToken"))
            .map(|token| message.slice_ref(token));
        let may_receive_requests =
            matches!(method, "tools/call" | "prompts/get" | "resources/read");
        let queue = Arc::<MessageQueue>::default();
        state.pending.push(Entry {
            id,
            token,
            may_receive_requests,
            timeout_control,
            queue: Arc::clone(&queue),
        });
        Ok(queue)
    }

    /// Removes a request if this queue still belongs to it.
    pub(crate) fn leave(&self, id: &[u8], queue: &Arc<MessageQueue>) {
        let mut state = self.lock();
        let waits = |entry: &Entry| entry.id == id && Arc::ptr_eq(&entry.queue, queue);
        let index = state.pending.iter().position(waits);
        if let Some(index) = index {
            state.remove(index);
        }
    }

    /// Ends a request that the client has cancelled; the backend need not send a response.
    pub(crate) fn cancel(&self, id: &[u8]) {
        let mut state = self.lock();
        if let Some(index) = state.pending.iter().position(|entry| entry.id == id) {
            state.remove(index).end();
        }
    }

    /// Records the response to a server request and resumes the timeouts.
    pub(crate) fn complete_server_request(&self, server_request: &[u8]) {
        self.lock().server_requests.retain(|it| it.id != server_request);
    }

    /// Drops server requests of the listener if it has left, and resumes the timeouts.
    pub(super) fn listener_left(&self) {
        if !self.standing.is_read() {
            self.lock().server_requests.retain(|it| !Arc::ptr_eq(&it.queue, &self.standing));
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Ends all pending requests.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.server_requests.clear();
        state.pending.drain(..).for_each(|entry| entry.queue.end());
        self.standing.end();
    }

    /// Delivers a message. Returns the gateway's own reply to the backend, if one is due.
    pub(crate) fn dispatch(&self, message: Bytes) -> Option<Bytes> {
        match scan(&message) {
            Ok(Envelope::Response { id, .. }) => self.answer(id, message),
            Ok(Envelope::Notification { method, params }) => {
                let method = method.read(&message).into_owned();
                self.notification(&method, &params, message);
            }
            Ok(Envelope::Request { id, method, .. }) => {
                let ping = method.is(&message, "ping");
                return self.server_request(id.slice(&message), ping, message);
            }
            Err(error) => {
                tracing::warn!(fault = %error.kind, "dropped an event that is not a JSON-RPC message");
            }
        }
        None
    }

    fn answer(&self, id: Option<Span>, message: Bytes) {
        let mut state = self.lock();
        let index = match id.map(|id| id.of(&message)) {
            Some(id) => state.pending.iter().position(|entry| entry.id == id),
            // An error without an id reports a request that the backend failed to parse.
            None => (state.pending.len() == 1).then_some(0),
        };
        if let Some(index) = index {
            state.remove(index).finish(message);
        } else {
            tracing::debug!("dropped a response without a pending request");
        }
    }

    fn notification(&self, method: &str, params: &Params, message: Bytes) {
        let mut state = self.lock();
        let offered = match method {
            "notifications/progress" => {
                let token = params.get(Key::ProgressToken).map(|token| token.of(&message));
                let theirs = |entry: &&Entry| token.is_some() && entry.token.as_deref() == token;
                // Progress of a completed request is dropped.
                let Some(entry) = state.pending.iter().find(theirs) else { return };
                entry.queue.enqueue(message, Priority::Droppable)
            }
            "notifications/message" => self.route(&state).enqueue(message, Priority::Droppable),
            // The backend cancels a server request, so its response is not awaited any more.
            "notifications/cancelled" => {
                if let Some(id) = params.get(Key::RequestId) {
                    state.server_requests.retain(|it| it.id != id.of(&message));
                }
                self.route(&state).enqueue(message, Priority::Required)
            }
            _ => self.standing.enqueue(message, Priority::Droppable),
        };
        if !offered {
            tracing::debug!(method, "dropped a notification: the queue is full");
        }
    }

    fn server_request(&self, id: Bytes, ping: bool, message: Bytes) -> Option<Bytes> {
        if ping {
            return Some(reply(&id, b"\"result\":{}"));
        }
        let mut state = self.lock();
        let queue = self.route(&state);
        if !queue.enqueue(message, Priority::Required) {
            let error =
                br#""error":{"code":-32603,"message":"too many server requests are pending"}"#;
            return Some(reply(&id, error));
        }
        let pauses: Vec<PauseGuard> = state.callers().filter_map(Entry::pause).collect();
        if queue.is_read()
            && !pauses.is_empty()
            && state.server_requests.len() < MAX_PENDING_SERVER_REQUESTS
        {
            state.server_requests.push(PendingServerRequest { id, queue, _pauses: pauses });
        }
        None
    }

    fn route(&self, state: &State) -> Arc<MessageQueue> {
        let mut callers = state.callers();
        let only = match (callers.next(), callers.next()) {
            (Some(only), None) => Some(only),
            (Some(_), Some(_)) if !self.standing.is_read() => state.callers().last(),
            _ => None,
        };
        only.map_or_else(|| Arc::clone(&self.standing), |entry| Arc::clone(&entry.queue))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Removes a request and the server requests that depend on it.
    fn remove(&mut self, index: usize) -> Arc<MessageQueue> {
        let queue = self.pending.remove(index).queue;
        self.server_requests.retain(|server_request| !Arc::ptr_eq(&server_request.queue, &queue));
        queue
    }

    fn callers(&self) -> impl Iterator<Item = &Entry> {
        self.pending.iter().filter(|entry| entry.may_receive_requests)
    }
}

impl Entry {
    fn pause(&self) -> Option<PauseGuard> {
        self.timeout_control.as_ref().map(TimeoutControl::pause)
    }
}

fn reply(id: &[u8], outcome: &[u8]) -> Bytes {
    [&br#"{"jsonrpc":"2.0","id":"#[..], id, b",", outcome, b"}"].concat().into()
}

#[cfg(test)]
mod tests;
