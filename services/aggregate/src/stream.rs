//! What goes to a stateful client by an event stream: numbered, bounded, and there to be read again
//! when the connection broke (MCP 2025-11-25, Streamable HTTP, Resumability and Redelivery).

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tokio::time::{Instant, Sleep, sleep};
use vmcp_core::BoxError;
use vmcp_wire::sse;

/// The most messages that wait for a client.
const QUEUE: usize = 64;

/// The most that is kept of what was sent, to be sent again.
const KEPT: usize = 64;

/// The most bytes that a stream holds, sent or not, the response that it is for aside.
const MOST_BYTES: usize = 4 << 20;

/// How often a silent stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

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

/// One stream of one session.
#[derive(Debug)]
pub(crate) struct Stream {
    number: u32,
    /// Whether its events have ids.
    numbered: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    /// The number of the next message.
    next: u64,
    /// The number of the first message that was not sent.
    unsent: u64,
    bytes: usize,
    /// Changes with each connection: an older connection ends when it sees that.
    connection: u64,
    connected: bool,
    waker: Option<Waker>,
    ended: Option<Instant>,
}

#[derive(Debug)]
struct Message {
    number: u64,
    data: Bytes,
    class: Class,
}

/// What a connection sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Nothing.
    Plain,
    /// An event with an id and without data, so that even an empty stream can be resumed.
    Primed,
}

impl Stream {
    pub(crate) fn new(number: u32) -> Arc<Self> {
        Arc::new(Self { number, numbered: true, state: Mutex::default() })
    }

    /// A stream that cannot be resumed: stateless clients open a new one instead.
    pub(crate) fn unnumbered() -> Arc<Self> {
        Arc::new(Self { number: 0, numbered: false, state: Mutex::default() })
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
        state.forget();
        if !state.make_room(data.len()) {
            if class == Class::Droppable {
                DROPPED.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            let waiting = state.waiting();
            let full = waiting >= 8 * QUEUE || waiting > 0 && state.bytes + data.len() > MOST_BYTES;
            if full || waiting >= QUEUE {
                // The connection is ended: the client can come back and read on.
                state.connection += 1;
                state.connected = false;
                state.wake();
            }
            if full {
                DROPPED.fetch_add(1, Ordering::Relaxed);
                return false;
            }
        }
        state.add(data, class);
        true
    }

    /// Adds the response that the stream is for, which always has room, and ends the stream.
    pub(crate) fn finish(&self, response: Bytes) {
        let mut state = self.lock();
        if state.ended.is_none() {
            state.add(response, Class::Kept);
            state.ended = Some(Instant::now());
        }
    }

    /// Nothing follows.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended.get_or_insert_with(Instant::now);
        state.wake();
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
        if let Some(next) = next {
            state.unsent = next.min(state.next);
        }
        state.wake();
        let connection = state.connection;
        drop(state);
        Connection { stream: Arc::clone(self), number: connection, opening, keep_alive: None }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn waiting(&self) -> usize {
        self.messages.iter().rev().take_while(|message| message.number >= self.unsent).count()
    }

    /// Lets go of what was sent and is more than is kept.
    fn forget(&mut self) {
        while self.messages.len() > KEPT || self.bytes > MOST_BYTES / 4 {
            match self.messages.front() {
                Some(oldest) if oldest.number < self.unsent => self.drop_at(0),
                _ => return,
            }
        }
    }

    /// Whether an equal message waits that is coalesced too.
    fn waits(&self, data: &[u8]) -> bool {
        let mut unsent = self.messages.iter().rev().take_while(|it| it.number >= self.unsent);
        unsent.any(|it| it.class == Class::Coalesced && it.data == data)
    }

    /// Makes room for a message of this length, at the cost of what was sent, and then of what may be dropped:
    /// whether there is room.
    fn make_room(&mut self, length: usize) -> bool {
        let is_sent =
            |state: &Self| state.messages.front().is_some_and(|it| it.number < state.unsent);
        while self.bytes + length > MOST_BYTES && is_sent(self) {
            self.drop_at(0);
        }
        if length > MOST_BYTES {
            return false;
        }
        while self.waiting() >= QUEUE || self.bytes + length > MOST_BYTES {
            if !self.drop_oldest() {
                return false;
            }
        }
        true
    }

    /// Drops the oldest message that may be dropped and was not sent: whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let unsent = self.unsent;
        let oldest = self
            .messages
            .iter()
            .position(|message| message.number >= unsent && message.class == Class::Droppable);
        if let Some(index) = oldest {
            self.drop_at(index);
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        oldest.is_some()
    }

    fn add(&mut self, data: Bytes, class: Class) {
        let number = self.next;
        self.next += 1;
        self.bytes += data.len();
        self.messages.push_back(Message { number, data, class });
        self.wake();
    }

    fn drop_at(&mut self, index: usize) {
        if let Some(message) = self.messages.remove(index) {
            self.bytes -= message.data.len();
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A response body that sends a stream's messages as they come.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Arc<Stream>,
    number: u64,
    opening: Opening,
    keep_alive: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for Connection {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let mut out = BytesMut::new();
        let number = this.stream.number;
        let mut state = this.stream.lock();
        if state.connection != this.number {
            return Poll::Ready(None);
        }
        // What the connection asked for more after is on its way: little of it is kept to be sent again.
        state.forget();
        if std::mem::replace(&mut this.opening, Opening::Plain) == Opening::Primed {
            let id = format!("{number}-{}", state.unsent);
            out.extend_from_slice(format!("id: {id}\nretry: 1000\ndata: \n\n").as_bytes());
        }
        let first = state.messages.partition_point(|message| message.number < state.unsent);
        for message in state.messages.range(first..) {
            // Ids name the message that follows, so that the first one has one too.
            let id = this.stream.numbered.then(|| format!("{number}-{}", message.number + 1));
            sse::frame(id.as_deref(), None, &message.data, &mut out);
        }
        state.unsent = state.next;
        if !out.is_empty() {
            this.keep_alive = None;
            return Poll::Ready(Some(Ok(Frame::data(out.freeze()))));
        }
        if state.ended.is_some() {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        drop(state);
        let keep_alive = this.keep_alive.get_or_insert_with(|| Box::pin(sleep(KEEP_ALIVE)));
        if keep_alive.as_mut().poll(cx).is_ready() {
            this.keep_alive = None;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(sse::KEEP_ALIVE)))));
        }
        Poll::Pending
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.stream.lock();
        if state.connection == self.number {
            state.connected = false;
            state.waker = None;
        }
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
