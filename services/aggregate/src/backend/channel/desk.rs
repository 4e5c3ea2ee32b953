//! Who gets which message of a channel.
//!
//! Streamable HTTP has a stream for each request; here all messages come on one. An answer belongs to
//! its request by id and progress by token. The protocol says of nothing else where it belongs: a
//! question and a log message go to the call that is the only one under way, else to whoever listens
//! to what comes unasked, else to the latest call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use vmcp_timeout::{PauseGuard, TimeoutControl};
use vmcp_wire::{Envelope, Key, Params, Span, find, scan};

use super::inbox::{Inbox, Worth};

/// The most requests that wait for their answers.
pub(crate) const MOST_WAITING: usize = 256;

/// The most questions for which the time of calls stands still.
const MOST_QUESTIONS: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    /// What belongs to no request.
    pub(crate) standing: Arc<Inbox>,
}

#[derive(Debug, Default)]
struct State {
    /// In the order in which they were made.
    waiting: Vec<Entry>,
    /// Questions that all calls under way may depend on.
    questions: Vec<Question>,
    over: bool,
}

/// A question of the backend that is not answered yet.
#[derive(Debug)]
struct Question {
    id: Bytes,
    /// Where it went. With the call that it went to, it is over.
    inbox: Arc<Inbox>,
    _pauses: Vec<PauseGuard>,
}

#[derive(Debug)]
struct Entry {
    id: Bytes,
    token: Option<Bytes>,
    /// Whether the backend may ask something in order to answer it.
    may_ask: bool,
    hold: Option<TimeoutControl>,
    inbox: Arc<Inbox>,
}

/// The request cannot be made on this channel now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// The channel is over.
    Over,
    /// Too many requests wait, or one with the same id.
    Full,
}

impl Desk {
    /// Enters `message`, a request with these parts, and gives where its messages come.
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

    /// Takes a request out, if it still waits with this inbox.
    pub(crate) fn leave(&self, id: &[u8], inbox: &Arc<Inbox>) {
        let mut state = self.lock();
        let waits = |entry: &Entry| entry.id == id && Arc::ptr_eq(&entry.inbox, inbox);
        let index = state.waiting.iter().position(waits);
        if let Some(index) = index {
            state.remove(index);
        }
    }

    /// The client no longer wants an answer, and the backend need not send one.
    pub(crate) fn cancelled(&self, id: &[u8]) {
        let mut state = self.lock();
        if let Some(index) = state.waiting.iter().position(|entry| entry.id == id) {
            state.remove(index).end();
        }
    }

    /// The backend's question has its answer: the time goes on.
    pub(crate) fn answered(&self, question: &[u8]) {
        self.lock().questions.retain(|it| it.id != question);
    }

    /// Drops the questions that went to the listener, if there is none any more: the time goes on.
    pub(super) fn listener_left(&self) {
        if !self.standing.is_read() {
            self.lock().questions.retain(|it| !Arc::ptr_eq(&it.inbox, &self.standing));
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// Ends everything that waits.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.over = true;
        state.questions.clear();
        state.waiting.drain(..).for_each(|entry| entry.inbox.end());
        self.standing.end();
    }

    /// Gives a message to whom it belongs. What comes back is to be sent to the backend.
    pub(crate) fn take(&self, message: Bytes) -> Option<Bytes> {
        match scan(&message) {
            Ok(Envelope::Answer { id, .. }) => self.answer(id, message),
            Ok(Envelope::Notification { method, params }) => {
                let method = method.read(&message).into_owned();
                self.notification(&method, &params, message);
            }
            Ok(Envelope::Request { id, method, .. }) => {
                let ping = method.is(&message, "ping");
                return self.question(id.slice(&message), ping, message);
            }
            Err(refused) => tracing::warn!(fault = %refused.fault, "an event that is no message"),
        }
        None
    }

    fn answer(&self, id: Option<Span>, message: Bytes) {
        let mut state = self.lock();
        let index = match id.map(|id| id.of(&message)) {
            Some(id) => state.waiting.iter().position(|entry| entry.id == id),
            // An error about what could not be read.
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
                // Progress of what is over is of no use.
                let Some(entry) = state.waiting.iter().find(theirs) else { return };
                entry.inbox.offer(message, Worth::Little)
            }
            "notifications/message" => self.route(&state).offer(message, Worth::Little),
            // It withdraws a question, which nobody has to answer any more.
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
    /// Takes a request out, with the questions that were asked for its sake.
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
