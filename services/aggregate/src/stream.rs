//! Event streams to stateful clients: numbered, bounded, and resumable after a lost connection (MCP 2025-11-25, Streamable
//! HTTP, Resumability and Redelivery).

mod connection;
pub(crate) mod detached;
mod state;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};
use vmcp_core::{BudgetAccount, Reservation};

pub(crate) use self::connection::{Connection, Opening};
use self::state::StreamState;
use crate::backend::error::BackendError;
use crate::stream::detached::{ClientAccount, Disconnect};
use vmcp_core::lock;

/// Maximum number of queued messages.
const MAX_QUEUED_MESSAGES: usize = 64;

/// Maximum size in bytes of a response that is queued even if the budget is exhausted, so the error still reaches the client.
const SHORT_RESPONSE: usize = 4 << 10;

/// Maximum backpressure on a backend while a client does not read.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// Number of messages dropped since the process started. Relaxed: it is only reported.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Time for which an ended stream can still be resumed.
const RESUMPTION_WINDOW: Duration = Duration::from_mins(1);

/// Handling of a message when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageClass {
    /// Progress and log messages: the oldest one is dropped.
    Droppable,
    /// Changes of lists and resources: merged with an equal queued message, otherwise rejected.
    Coalesced,
    /// Requests: rejected, never dropped.
    Required,
}

impl MessageClass {
    /// Returns the class of a notification method.
    pub(crate) fn of_notification(method: &str) -> Self {
        match method {
            "notifications/progress" | "notifications/message" => Self::Droppable,
            "notifications/resources/updated"
            | "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => Self::Coalesced,
            _ => Self::Required,
        }
    }
}

impl From<AbandonReason> for BackendError {
    fn from(why: AbandonReason) -> Self {
        match why {
            AbandonReason::Time => Self::ABANDONED,
            AbandonReason::Bytes => Self::MESSAGES_OVER_BUFFER,
        }
    }
}

/// Event stream of a session.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Name in event ids.
    name: Box<str>,
    /// `true` for the notification stream of a session, which belongs to no call.
    is_standing: bool,
    /// Budget accounts of the client. `None` for streams that cannot be resumed and whose events have no ids.
    account: Option<ClientAccount>,
    /// Not held across waits. Wakers and `changed` are notified under it, so no state change is missed.
    state: Mutex<StreamState>,
    /// Notified when a client connects or disconnects, or when the buffer overflows.
    changed: Notify,
}

/// Reason for ending a call whose client is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AbandonReason {
    /// The client was away for too long.
    Time,
    /// The buffered messages exceed the budget.
    Bytes,
}

impl Stream {
    /// Creates the stream of a call.
    pub(crate) fn new(name: Box<str>, account: ClientAccount) -> Arc<Self> {
        Self::numbered(name, account, false)
    }

    /// Creates the notification stream of a session.
    pub(crate) fn standing(name: Box<str>, account: ClientAccount) -> Arc<Self> {
        Self::numbered(name, account, true)
    }

    fn numbered(name: Box<str>, account: ClientAccount, is_standing: bool) -> Arc<Self> {
        let state = StreamState { reservation: Some(account.open()), ..StreamState::default() };
        Self::of(name, is_standing, Some(account), state)
    }

    /// Creates a stream that cannot be resumed, because stateless clients open a new one instead. `account` is that of the
    /// client.
    pub(crate) fn unnumbered(account: Option<&BudgetAccount>) -> Arc<Self> {
        let connected_bytes = account.map(BudgetAccount::open);
        Self::of(
            Box::default(),
            true,
            None,
            StreamState { connected_bytes, ..StreamState::default() },
        )
    }

    /// Creates a stream that drops all messages, because no client reads them.
    pub(crate) fn ended() -> Arc<Self> {
        let stream = Self::unnumbered(None);
        stream.end();
        stream
    }

    fn of(
        name: Box<str>,
        is_standing: bool,
        account: Option<ClientAccount>,
        state: StreamState,
    ) -> Arc<Self> {
        let (state, changed) = (Mutex::new(state), Notify::new());
        Arc::new(Self { name, is_standing, account, state, changed })
    }

    /// Returns the name in event ids.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Queues a message. Returns `false` if the stream has ended or rejects the message.
    pub(crate) fn push(&self, data: Bytes, class: MessageClass) -> bool {
        let mut state = self.lock();
        if state.ended.is_some() {
            return false;
        }
        if class == MessageClass::Coalesced && state.waits(&data) {
            return true;
        }
        // The message is complete.
        state.partial = 0;
        state.forget();
        if !state.make_room(data.len()) {
            if class == MessageClass::Droppable {
                DROPPED.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            let waiting = state.waiting();
            let wide = state.bytes + data.len() > state.most_bytes();
            let full = waiting >= 8 * MAX_QUEUED_MESSAGES
                || wide && (waiting > 0 || state.reservation.is_some());
            let was_away = !state.connected;
            if !was_away && (full || waiting >= MAX_QUEUED_MESSAGES) {
                // Closing the connection lets the client resume from its last event.
                state.connection += 1;
                state.wake();
                self.leave(&mut state);
            }
            if full {
                DROPPED.fetch_add(1, Ordering::Relaxed);
                if was_away {
                    self.overflow(&mut state);
                }
                return false;
            }
        }
        if !state.charge(data.len()) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
            if class != MessageClass::Droppable {
                self.overflow(&mut state);
            }
            return class == MessageClass::Droppable;
        }
        state.add(data, class);
        true
    }

    /// Queues the final response with its reservation and ends the stream. For a connected client, the response always fits.
    /// For a disconnected one, returns `false` if it is too large even after dropping all queued messages; a short response
    /// then fits.
    pub(crate) fn finish(&self, response: Bytes, count: Option<Reservation>) -> bool {
        let mut state = self.lock();
        if state.ended.is_some() {
            return true;
        }
        state.partial = 0;
        let response = match count {
            Some(count) => count.attach(response),
            None => response,
        };
        if state.reservation.is_some() && !state.charge(response.len()) {
            state.messages.clear();
            state.bytes = 0;
            if !state.charge(response.len()) && response.len() > SHORT_RESPONSE {
                return false;
            }
        }
        state.add(response, MessageClass::Required);
        state.close();
        true
    }

    /// Ends the stream.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.close();
        state.wake();
    }

    /// Returns `true` if the reader of the backend's stream may buffer this many bytes of an incomplete message.
    pub(crate) fn may_buffer(&self, bytes: usize) -> bool {
        let mut state = self.lock();
        state.partial = bytes;
        state.charge(0)
    }

    /// Waits briefly if the client reads more slowly than the backend sends, so fewer messages are dropped.
    pub(crate) async fn pace(&self) {
        let changed = self.changed.notified();
        if self.lock().is_full() {
            _ = timeout(MAX_PAUSE, changed).await;
        }
    }

    /// Waits until the client has been away or has not read for `lifetime`, or its messages exceed the budget. A client that
    /// does not read is detected within twice that time.
    pub(crate) async fn abandoned(&self, lifetime: Duration) -> AbandonReason {
        loop {
            // Created before the state is read, so no later change is missed.
            let changed = self.changed.notified();
            let unread = {
                let state = self.lock();
                if state.overflowed {
                    return AbandonReason::Bytes;
                }
                state.unread_since()
            };
            let since = unread.unwrap_or_else(Instant::now);
            let elapsed = timeout_at(since + lifetime, changed).await.is_err();
            if elapsed && unread.is_some() && self.lock().unread_since() == unread {
                return AbandonReason::Time;
            }
        }
    }

    /// Waits until the client has disconnected, or its messages exceed the budget. Unread messages are no reason.
    pub(crate) async fn disconnected(&self) {
        loop {
            // Created before the state is read, so no later change is missed.
            let changed = self.changed.notified();
            {
                let state = self.lock();
                if state.left.is_some() || state.overflowed {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Starts the client's absence at `departure`, unless the client connects: it disconnected before the stream was created.
    pub(crate) fn begin_without_client(&self, departure: &Disconnect) {
        self.lock().left = Some(departure.at);
    }

    /// Records that the client disconnected, and charges the queued messages to its account.
    fn leave(&self, state: &mut StreamState) {
        state.connected = false;
        state.waker = None;
        state.left.get_or_insert_with(Instant::now);
        if let Some(account) = &self.account {
            let is_call = !self.is_standing && state.ended.is_none();
            let call = is_call.then(|| account.open_call()).flatten();
            let is_refused = is_call && call.is_none();
            state.reservation = Some(call.unwrap_or_else(|| account.open()));
            state.connected_bytes = None;
            if is_refused || !state.charge(0) {
                self.overflow(state);
            }
        }
        self.changed.notify_waiters();
    }

    /// Records that the messages for a disconnected client exceed the budget.
    fn overflow(&self, state: &mut StreamState) {
        if state.reservation.is_some() && !std::mem::replace(&mut state.overflowed, true) {
            self.changed.notify_waiters();
        }
    }

    /// Returns `true` if a client is connected.
    pub(crate) fn connected(&self) -> bool {
        self.lock().connected
    }

    /// Returns `true` if the stream has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended.is_some()
    }

    /// Returns `true` if the stream has ended and cannot be resumed any more.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.lock();
        state.ended.is_some_and(|at| at.elapsed() >= RESUMPTION_WINDOW)
    }

    /// Connects a client and closes its earlier connection. It receives the messages from `next` on, or all unsent ones.
    pub(crate) fn connect(self: &Arc<Self>, next: Option<u64>, opening: Opening) -> Connection {
        let mut state = self.lock();
        state.connection += 1;
        state.connected = true;
        (state.reservation, state.left, state.sending) = (None, None, None);
        if let Some(account) = &self.account {
            state.connected_bytes = account.connected.as_ref().map(BudgetAccount::open);
            // Queued messages are kept even if they exceed the budget, because the new connection drains them.
            _ = state.charge(0);
        }
        if let Some(next) = next {
            state.unsent = next.min(state.next);
        }
        state.waits_since = (state.waiting() > 0).then(Instant::now);
        self.changed.notify_waiters();
        state.wake();
        let connection = state.connection;
        drop(state);
        Connection::new(Arc::clone(self), connection, opening)
    }

    fn lock(&self) -> MutexGuard<'_, StreamState> {
        lock(&self.state)
    }
}

/// Returns the number of messages dropped or rejected since the process started because their clients did not read.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Parses an event id: the stream's name, which may contain hyphens, and the number of the next message.
pub(crate) fn parse_id(text: &str) -> Option<(&str, u64)> {
    let (stream, next) = text.rsplit_once('-')?;
    if stream.is_empty() {
        return None;
    }
    Some((stream, next.parse().ok()?))
}

#[cfg(test)]
mod tests;
