//! Streaming responses of the adapter.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use vmcp_core::BoxError;
use vmcp_wire::sse;

use super::demultiplexer::Demultiplexer;
use super::message_queue::{MessageQueue, QueueReader, QueuedMessage};
use crate::event_stream::next_piece;

/// Messages for one request. Dropping it removes the request.
#[derive(Debug)]
pub(super) struct ResponseMessages {
    demultiplexer: Arc<Demultiplexer>,
    queue: Arc<MessageQueue>,
    reading: QueueReader,
    id: Bytes,
}

/// Messages encoded as events.
#[derive(Debug)]
pub(super) struct EventBody {
    first: Option<QueuedMessage>,
    /// Message that is being read.
    encoder: Option<sse::Encoder>,
    source: Source,
    is_closed: bool,
}

#[derive(Debug)]
enum Source {
    ResponseMessages(ResponseMessages),
    UnsolicitedMessages(UnsolicitedMessages),
}

/// Messages that belong to no request. Dropping it closes the server requests that were delivered this way.
#[derive(Debug)]
pub(super) struct UnsolicitedMessages {
    demultiplexer: Arc<Demultiplexer>,
    reading: QueueReader,
}

impl UnsolicitedMessages {
    pub(super) fn new(demultiplexer: &Arc<Demultiplexer>) -> Self {
        Self { demultiplexer: Arc::clone(demultiplexer), reading: demultiplexer.standing.read() }
    }
}

impl Drop for UnsolicitedMessages {
    fn drop(&mut self) {
        self.reading.leave();
        self.demultiplexer.listener_left();
    }
}

impl ResponseMessages {
    pub(super) fn new(
        demultiplexer: Arc<Demultiplexer>,
        queue: &Arc<MessageQueue>,
        id: Bytes,
    ) -> Self {
        Self { demultiplexer, queue: Arc::clone(queue), reading: queue.read(), id }
    }

    pub(super) async fn next(&mut self) -> Option<QueuedMessage> {
        self.reading.next().await
    }
}

impl Drop for ResponseMessages {
    fn drop(&mut self) {
        self.demultiplexer.leave(&self.id, &self.queue);
    }
}

impl EventBody {
    /// Creates the response stream of a request. `first` precedes the response itself.
    pub(super) fn answering(first: QueuedMessage, answer: ResponseMessages) -> Self {
        Self {
            first: Some(first),
            encoder: None,
            source: Source::ResponseMessages(answer),
            is_closed: false,
        }
    }

    /// Creates the stream of messages that belong to no request.
    pub(super) fn standing(standing: UnsolicitedMessages) -> Self {
        Self {
            first: None,
            encoder: None,
            source: Source::UnsolicitedMessages(standing),
            is_closed: false,
        }
    }
}

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Some(piece) = next_piece(&mut this.encoder) {
            return Poll::Ready(Some(Ok(piece)));
        }
        if this.is_closed {
            return Poll::Ready(None);
        }
        let reading = match &mut this.source {
            Source::ResponseMessages(answer) => &mut answer.reading,
            Source::UnsolicitedMessages(standing) => &mut standing.reading,
        };
        let item = match this.first.take() {
            Some(first) => first,
            None => match ready!(reading.poll_next(cx)) {
                Some(item) => item,
                None => return Poll::Ready(None),
            },
        };
        this.is_closed = item.last;
        // The message stays reserved until its last piece is read.
        this.encoder = Some(sse::Encoder::new(item.message));
        Poll::Ready(next_piece(&mut this.encoder).map(Ok))
    }
}
