//! What goes to a stateful client by an event stream: numbered, bounded, and there to be read again
//! when the connection broke (MCP 2025-11-25, Streamable HTTP, Resumability and Redelivery).

mod connection;
mod state;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};
use vmcp_core::{BudgetAccount, Reservation};

pub(crate) use self::connection::{Connection, FIELDS, MAX_FRAME, Opening};
use self::state::State;
use crate::backend::failure::Failure;
use crate::detached::{Account, Departure};

/// The most messages that wait for a client.
const QUEUE: usize = 64;

/// The longest response that is added whatever else there is no room for, in bytes: an error says what was lost.
const SHORT_RESPONSE: usize = 4 << 10;

/// The longest that a backend waits for a client that does not read.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// How many messages were dropped since the process began.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// How long a stream that has ended can still be resumed.
const AFTERLIFE: Duration = Duration::from_secs(60);

/// What happens to a message for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Progress and logging: the oldest one goes.
    Droppable,
    /// Changes of lists and resources: refused, but one that waits already says the same.
    Coalesced,
    /// Requests: refused, never dropped.
    Kept,
}

impl Class {
    /// What a notification is, by its method.
    pub(crate) fn of_notification(method: &str) -> Self {
        match method {
            "notifications/progress" | "notifications/message" => Self::Droppable,
            "notifications/resources/updated"
            | "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => Self::Coalesced,
            _ => Self::Kept,
        }
    }
}

impl From<Abandoned> for Failure {
    fn from(why: Abandoned) -> Self {
        match why {
            Abandoned::Time => Self::ABANDONED,
            Abandoned::Bytes => Self::UNREAD,
        }
    }
}

/// One stream of one session.
#[derive(Debug)]
pub(crate) struct Stream {
    number: u32,
    /// Accounts of its client. `None`: it cannot be resumed, and its events have no ids.
    account: Option<Account>,
    state: Mutex<State>,
    /// Notified when a client connects, leaves, or too much waits for it.
    changed: Notify,
}

/// Why a call ends whose client is not connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abandoned {
    /// The client was away for too long.
    Time,
    /// Too much waits for the client.
    Bytes,
}

impl Stream {
    pub(crate) fn new(number: u32, account: Account) -> Arc<Self> {
        let state = State { reservation: Some(account.open()), ..State::default() };
        Self::of(number, Some(account), state)
    }

    /// A stream that cannot be resumed: stateless clients open a new one instead. `account` is that of the client.
    pub(crate) fn unnumbered(account: Option<&BudgetAccount>) -> Arc<Self> {
        let connected_bytes = account.map(BudgetAccount::open);
        Self::of(0, None, State { connected_bytes, ..State::default() })
    }

    fn of(number: u32, account: Option<Account>, state: State) -> Arc<Self> {
        Arc::new(Self { number, account, state: Mutex::new(state), changed: Notify::new() })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Adds a message. `false` when it was not taken: the stream has ended, or too much waits.
    pub(crate) fn push(&self, data: Bytes, class: Class) -> bool {
        let mut state = self.lock();
        if state.ended.is_some() {
            return false;
        }
        if class == Class::Coalesced && state.waits(&data) {
            return true;
        }
        // It has come whole.
        state.partial = 0;
        state.forget();
        if !state.make_room(data.len()) {
            if class == Class::Droppable {
                DROPPED.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            let waiting = state.waiting();
            let wide = state.bytes + data.len() > state.most_bytes();
            let full = waiting >= 8 * QUEUE || wide && (waiting > 0 || state.reservation.is_some());
            let was_away = !state.connected;
            if !was_away && (full || waiting >= QUEUE) {
                // The connection is ended: the client can come back and read on.
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
            if class != Class::Droppable {
                self.overflow(&mut state);
            }
            return class == Class::Droppable;
        }
        state.add(data, class);
        true
    }

    /// Adds the response that the stream is for, with what counts it, and ends the stream. It always has room for a client
    /// that is connected. For another one, `false` where it is too large even without what waits before it: then nothing
    /// waits any more, and a short one finds room.
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
        state.add(response, Class::Kept);
        state.close();
        true
    }

    /// Nothing follows.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.close();
        state.wake();
    }

    /// Whether the reader of the backend's stream may hold this many bytes of a message that has not come whole.
    pub(crate) fn may_hold(&self, bytes: usize) -> bool {
        let mut state = self.lock();
        state.partial = bytes;
        state.charge(0)
    }

    /// Waits a moment if more waits than the client reads, so that a backend is not read in order to drop what it says.
    pub(crate) async fn pace(&self) {
        let changed = self.changed.notified();
        if self.lock().is_full() {
            _ = timeout(MAX_PAUSE, changed).await;
        }
    }

    /// Waits until the client has been away, or has not read, for `lifetime`, or more was to wait for it than there is room
    /// for. A client that does not read is noticed within twice that time.
    pub(crate) async fn abandoned(&self, lifetime: Duration) -> Abandoned {
        loop {
            // Made before the state is looked at: it hears of every change since.
            let changed = self.changed.notified();
            let unread = {
                let state = self.lock();
                if state.overflowed {
                    return Abandoned::Bytes;
                }
                state.unread_since()
            };
            let since = unread.unwrap_or_else(Instant::now);
            let elapsed = timeout_at(since + lifetime, changed).await.is_err();
            if elapsed && unread.is_some() && self.lock().unread_since() == unread {
                return Abandoned::Time;
            }
        }
    }

    /// Counts from `departure` on how long the client is away, unless it connects: its request was gone before the
    /// stream began.
    pub(crate) fn begin_without_client(&self, departure: &Departure) {
        self.lock().left = Some(departure.at);
    }

    /// Notes that the client is no longer connected, and charges what waits for it.
    fn leave(&self, state: &mut State) {
        state.connected = false;
        state.waker = None;
        state.left.get_or_insert_with(Instant::now);
        if let Some(account) = &self.account {
            let is_call = self.number > 0 && state.ended.is_none();
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

    /// Notes that more was to wait for a client that is away than there is room for.
    fn overflow(&self, state: &mut State) {
        if state.reservation.is_some() && !std::mem::replace(&mut state.overflowed, true) {
            self.changed.notify_waiters();
        }
    }

    /// Whether a client is connected.
    pub(crate) fn connected(&self) -> bool {
        self.lock().connected
    }

    /// Whether nothing follows.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended.is_some()
    }

    /// Whether nobody will read of it any more.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.lock();
        state.ended.is_some_and(|at| at.elapsed() >= AFTERLIFE)
    }

    /// Connects a client, whose earlier connection ends. It gets what comes from message `next` on,
    /// or what nobody got yet.
    pub(crate) fn connect(self: &Arc<Self>, next: Option<u64>, opening: Opening) -> Connection {
        let mut state = self.lock();
        state.connection += 1;
        state.connected = true;
        (state.reservation, state.left, state.sending) = (None, None, None);
        if let Some(account) = &self.account {
            state.connected_bytes = account.connected.as_ref().map(BudgetAccount::open);
            // What waits already stays, even if it does not fit: its reader takes it now.
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many messages were dropped or refused since the process began, because their clients did not read.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Reads an event id: the stream's number and that of the next message.
pub(crate) fn parse_id(text: &str) -> Option<(u32, u64)> {
    let (stream, next) = text.split_once('-')?;
    Some((stream.parse().ok()?, next.parse().ok()?))
}

#[cfg(test)]
mod tests;
