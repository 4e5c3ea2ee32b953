//! Connection of a client to a stream.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tokio::time::{Instant, Sleep, sleep};
use vmcp_core::BoxError;
use vmcp_wire::sse;

use super::Stream;
use super::state::StreamState;
use crate::event_stream::{FIELDS, MAX_FRAME};

/// Interval of keep-alive comments on a silent stream.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// First event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// No initial event.
    Plain,
    /// An event with an id but no data, so even an empty stream can be resumed.
    Primed,
}

/// Response body that sends a stream's messages as they arrive.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Arc<Stream>,
    number: u64,
    opening: Opening,
    /// Long message that is sent in pieces, and its number.
    encoder: Option<(u64, sse::Encoder)>,
    keep_alive: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    /// Creates the connection with this number, which is the newest of the stream.
    pub(super) fn new(stream: Arc<Stream>, number: u64, opening: Opening) -> Self {
        Self { stream, number, opening, encoder: None, keep_alive: None }
    }
}

/// Appends unsent messages of a stream, up to about [`MAX_FRAME`].
fn encode(
    stream: &Stream,
    state: &mut StreamState,
    encoder: &mut Option<(u64, sse::Encoder)>,
    out: &mut BytesMut,
) {
    let is_numbered = stream.account.is_some();
    // Ids name the next message, so the initial event has one too.
    let id = |number: u64| is_numbered.then(|| format!("{}-{}", stream.name, number + 1));
    while out.len() < MAX_FRAME {
        let (number, mut event) = match encoder.take() {
            Some(begun) => begun,
            None => match state.first_unsent() {
                Some(message) => (message.number, sse::Encoder::new(message.data.clone())),
                None => break,
            },
        };
        let most = MAX_FRAME - out.len();
        out.reserve(event.remaining().min(most) + FIELDS);
        if event.encode(id(number).as_deref(), most, out) {
            (state.unsent, state.sending) = (number + 1, None);
        } else {
            state.sending = Some(number);
            *encoder = Some((number, event));
        }
    }
    let waits = encoder.is_some() || state.first_unsent().is_some();
    state.waits_since = waits.then(Instant::now);
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
        let mut state = this.stream.lock();
        if state.connection != this.number {
            return Poll::Ready(None);
        }
        // The peer has accepted everything before this poll, so few sent messages are kept for resending.
        state.forget();
        if std::mem::replace(&mut this.opening, Opening::Plain) == Opening::Primed {
            let id = format!("{}-{}", this.stream.name, state.unsent);
            out.extend_from_slice(format!("id: {id}\nretry: 1000\ndata: \n\n").as_bytes());
        }
        let was_full = state.is_full();
        encode(&this.stream, &mut state, &mut this.encoder, &mut out);
        if was_full && !state.is_full() {
            this.stream.changed.notify_waiters();
        }
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
            self.stream.leave(&mut state);
        }
    }
}
