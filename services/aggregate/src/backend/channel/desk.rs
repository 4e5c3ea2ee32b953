//! Demultiplexer for the messages of a channel.
//!
//! Streamable HTTP has a stream for each request; an HTTP+SSE channel delivers all messages on one. Responses are matched to
//! requests by id, progress notifications by token. The protocol does not correlate other messages: server requests and log
//! messages go to the call in flight if there is exactly one, otherwise to the listener for unsolicited messages, otherwise to
//! the latest call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use vmcp_timeout::{PauseGuard, TimeoutControl};
use vmcp_wire::{Envelope, Key, Params, Span, find, scan};

use super::inbox::{Inbox, Worth};

/// Maximum number of pending requests.
pub(crate) const MOST_WAITING: usize = 256;

/// Maximum number of server requests that pause the timeouts of calls.
const MOST_QUESTIONS: usize = 64;

/// Demultiplexer for one channel.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    /// Queue for messages that belong to no request.
    pub(crate) standing: Arc<Inbox>,
}

#[derive(Debug, Default)]
struct State {
    /// Pending requests, oldest first.
    waiting: Vec<Entry>,
    /// Pending server requests on which all calls in flight may depend.
    questions: Vec<Question>,
    over: bool,
}

/// Server request without a response yet.
#[derive(Debug)]
struct Question {
    id: Bytes,
    /// Queue that received it. The server request ends with the call of that queue.
    inbox: Arc<Inbox>,
    _pauses: Vec<PauseGuard>,
}

#[derive(Debug)]
struct Entry {
    id: Bytes,
    token: Option<Bytes>,
    /// `true` if the backend may send server requests while it processes this request.
    may_ask: bool,
    hold: Option<TimeoutControl>,
    inbox: Arc<Inbox>,
}

/// Error for requests that cannot be sent on the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// The channel is closed.
    Over,
    /// Too many requests are pending, or one with the same id.
    Full,
}

impl Desk {
    /// Registers the request `message` with these parts and returns the queue for its messages.
    pub(crate) fn enter(
        &self,
        message: &Bytes,
        id: Span,
        method: &str,
        params: &Params,
        hold: Option<TimeoutControl>,
    ) -> Result<Arc<Inbox>, NoPlace> {
        let id = id.slice(message);
        let mut state = self.lock();
        if state.over {
            return Err(NoPlace::Over);
        }
        if state.waiting.len() >= MOST_WAITING || state.waiting.iter().any(|entry| entry.id == id) {
            return Err(NoPlace::Full);
        }
        let token = params
            .get(Key::Meta)
            .and_then(|meta| find(meta.of(message), "progressToken"))
            .map(|token| message.slice_ref(token));
        let may_ask = matches!(method, "tools/call" | "prompts/get" | "resources/read");
        let inbox = Arc::<Inbox>::default();
        state.waiting.push(Entry { id, token, may_ask, hold, inbox: Arc::clone(&inbox) });
        Ok(inbox)
    }

    /// Removes a request if this queue still belongs to it.
    pub(crate) fn leave(&self, id: &[u8], inbox: &Arc<Inbox>) {
        let mut state = self.lock();
        let waits = |entry: &Entry| entry.id == id && Arc::ptr_eq(&entry.inbox, inbox);
        let index = state.waiting.iter().position(waits);
        if let Some(index) = index {
            state.remove(index);
        }
    }

    /// Ends a request that the client has cancelled; the backend need not send a response.
    pub(crate) fn cancelled(&self, id: &[u8]) {
        let mut state = self.lock();
        if let Some(index) = state.waiting.iter().position(|entry| entry.id == id) {
            state.remove(index).end();
        }
    }

    /// Records the response to a server request and resumes the timeouts.
    pub(crate) fn answered(&self, question: &[u8]) {
        self.lock().questions.retain(|it| it.id != question);
    }

    /// Drops server requests of the listener if it has left, and resumes the timeouts.
    pub(super) fn listener_left(&self) {
        if !self.standing.is_read() {
            self.lock().questions.retain(|it| !Arc::ptr_eq(&it.inbox, &self.standing));
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// Ends all pending requests.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.over = true;
        state.questions.clear();
        state.waiting.drain(..).for_each(|entry| entry.inbox.end());
        self.standing.end();
    }

    /// Delivers a message. Returns the gateway's own reply to the backend, if one is due.
    pub(crate) fn take(&self, message: Bytes) -> Option<Bytes> {
        match scan(&message) {
            Ok(Envelope::Response { id, .. }) => self.answer(id, message),
            Ok(Envelope::Notification { method, params }) => {
                let method = method.read(&message).into_owned();
                self.notification(&method, &params, message);
            }
            Ok(Envelope::Request { id, method, .. }) => {
                let ping = method.is(&message, "ping");
                return self.question(id.slice(&message), ping, message);
            }
            Err(error) => tracing::warn!(fault = %error.kind, "an event that is no message"),
        }
        None
    }

    fn answer(&self, id: Option<Span>, message: Bytes) {
        let mut state = self.lock();
        let index = match id.map(|id| id.of(&message)) {
            Some(id) => state.waiting.iter().position(|entry| entry.id == id),
            // An error without an id reports a request that the backend failed to parse.
            None => (state.waiting.len() == 1).then_some(0),
        };
        if let Some(index) = index {
            state.remove(index).finish(message);
        } else {
            tracing::debug!("an answer nobody waits for");
        }
    }

    fn notification(&self, method: &str, params: &Params, message: Bytes) {
        let mut state = self.lock();
        let offered = match method {
            "notifications/progress" => {
                let token = params.get(Key::ProgressToken).map(|token| token.of(&message));
                let theirs = |entry: &&Entry| token.is_some() && entry.token.as_deref() == token;
                // Progress of a completed request is dropped.
                let Some(entry) = state.waiting.iter().find(theirs) else { return };
                entry.inbox.offer(message, Worth::Little)
            }
            "notifications/message" => self.route(&state).offer(message, Worth::Little),
            // The backend cancels a server request, so its response is not awaited any more.
            "notifications/cancelled" => {
                if let Some(id) = params.get(Key::RequestId) {
                    state.questions.retain(|it| it.id != id.of(&message));
                }
                self.route(&state).offer(message, Worth::Much)
            }
            _ => self.standing.offer(message, Worth::Little),
        };
        if !offered {
            tracing::debug!(method, "a notification for which there was no room");
        }
    }

    fn question(&self, id: Bytes, ping: bool, message: Bytes) -> Option<Bytes> {
        if ping {
            return Some(reply(&id, b"\"result\":{}"));
        }
        let mut state = self.lock();
        let inbox = self.route(&state);
        if !inbox.offer(message, Worth::Much) {
            let error = br#""error":{"code":-32603,"message":"too many questions are open"}"#;
            return Some(reply(&id, error));
        }
        let pauses: Vec<PauseGuard> = state.askers().filter_map(Entry::pause).collect();
        if inbox.is_read() && !pauses.is_empty() && state.questions.len() < MOST_QUESTIONS {
            state.questions.push(Question { id, inbox, _pauses: pauses });
        }
        None
    }

    fn route(&self, state: &State) -> Arc<Inbox> {
        let mut askers = state.askers();
        let only = match (askers.next(), askers.next()) {
            (Some(only), None) => Some(only),
            (Some(_), Some(_)) if !self.standing.is_read() => state.askers().last(),
            _ => None,
        };
        only.map_or_else(|| Arc::clone(&self.standing), |entry| Arc::clone(&entry.inbox))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Removes a request and the server requests that depend on it.
    fn remove(&mut self, index: usize) -> Arc<Inbox> {
        let inbox = self.waiting.remove(index).inbox;
        self.questions.retain(|question| !Arc::ptr_eq(&question.inbox, &inbox));
        inbox
    }

    fn askers(&self) -> impl Iterator<Item = &Entry> {
        self.waiting.iter().filter(|entry| entry.may_ask)
    }
}

impl Entry {
    fn pause(&self) -> Option<PauseGuard> {
        self.hold.as_ref().map(TimeoutControl::pause)
    }
}

fn reply(id: &[u8], outcome: &[u8]) -> Bytes {
    [&br#"{"jsonrpc":"2.0","id":"#[..], id, b",", outcome, b"}"].concat().into()
}

#[cfg(test)]
mod tests;
