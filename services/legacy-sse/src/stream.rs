//! Event stream of one client.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, Sleep, sleep};
use vmcp_core::BoxError;
use vmcp_wire::sse;

use crate::MESSAGES_PATH;
use crate::client::{Client, ClientTable};

/// Length in bytes of the pieces that a long message is sent in. No budget counts what a connection buffers.
const MAX_FRAME: usize = 32 << 10;

/// Interval of keep-alive comments on an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Time limit for the client to complete initialization.
const INITIALIZE_TIMEOUT: Duration = Duration::from_mins(1);

/// Callback for a client's disconnect.
pub(crate) type OnDisconnect = Box<dyn FnOnce() + Send>;

/// Response body of the stream. Calls `on_disconnect` when the client disconnects.
pub(crate) struct EventStream {
    client: Arc<Client>,
    queue: Receiver<Bytes>,
    /// The message that is being sent.
    encoder: Option<sse::Encoder>,
    clients: Arc<ClientTable>,
    on_disconnect: Option<OnDisconnect>,
    opened: Instant,
    started: bool,
    keep_alive: Pin<Box<Sleep>>,
}

impl EventStream {
    pub(crate) fn new(
        client: Arc<Client>,
        queue: Receiver<Bytes>,
        clients: Arc<ClientTable>,
        on_disconnect: OnDisconnect,
    ) -> Self {
        let keep_alive = Box::pin(sleep(KEEP_ALIVE));
        let (on_disconnect, opened) = (Some(on_disconnect), Instant::now());
        let encoder = None;
        Self { client, queue, encoder, clients, on_disconnect, opened, started: false, keep_alive }
    }

    fn reset_keep_alive(&mut self) {
        self.keep_alive.as_mut().reset(Instant::now() + KEEP_ALIVE);
    }
}

impl http_body::Body for EventStream {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let mut out = BytesMut::new();
        if !std::mem::replace(&mut this.started, true) {
            let address = format!("{MESSAGES_PATH}?sessionId={}", this.client.id());
            sse::frame(None, Some("endpoint"), address.as_bytes(), &mut out);
            return Poll::Ready(Some(Ok(Frame::data(out.freeze()))));
        }
        if this.encoder.is_none() {
            match this.queue.poll_recv(cx) {
                Poll::Ready(Some(message)) => {
                    this.encoder = Some(sse::Encoder::new(message).event("message"));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {}
            }
        }
        if let Some(event) = &mut this.encoder {
            out.reserve(event.remaining().min(MAX_FRAME) + 64);
            if event.encode(None, MAX_FRAME, &mut out) {
                this.encoder = None;
            }
            this.reset_keep_alive();
            return Poll::Ready(Some(Ok(Frame::data(out.freeze()))));
        }
        if this.keep_alive.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        if !this.client.has_session() && this.opened.elapsed() >= INITIALIZE_TIMEOUT {
            return Poll::Ready(None);
        }
        this.reset_keep_alive();
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(sse::KEEP_ALIVE)))))
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.client.close();
        self.clients.remove(&self.client);
        if let Some(on_disconnect) = self.on_disconnect.take() {
            on_disconnect();
        }
    }
}
