//! Streaming responses of the adapter.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use vmcp_core::BoxError;
use vmcp_wire::sse;

use super::desk::Desk;
use super::inbox::{Inbox, Item, Reading};
use crate::stream::next_piece;

/// Messages for one request. Dropping it removes the request.
#[derive(Debug)]
pub(super) struct Answer {
    desk: Arc<Desk>,
    inbox: Arc<Inbox>,
    reading: Reading,
    id: Bytes,
}

/// Messages encoded as events.
#[derive(Debug)]
pub(super) struct Events {
    first: Option<Item>,
    /// Message that is being read.
    encoder: Option<sse::Encoder>,
    source: Source,
    over: bool,
}

#[derive(Debug)]
enum Source {
    Answer(Answer),
    Standing(Standing),
}

/// Messages that belong to no request. Dropping it closes the server requests that were delivered this way.
#[derive(Debug)]
pub(super) struct Standing {
    desk: Arc<Desk>,
    reading: Reading,
}

impl Standing {
    pub(super) fn new(desk: &Arc<Desk>) -> Self {
        Self { desk: Arc::clone(desk), reading: desk.standing.read() }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.reading.leave();
        self.desk.listener_left();
    }
}

impl Answer {
    pub(super) fn new(desk: Arc<Desk>, inbox: &Arc<Inbox>, id: Bytes) -> Self {
        Self { desk, inbox: Arc::clone(inbox), reading: inbox.read(), id }
    }

    pub(super) async fn next(&mut self) -> Option<Item> {
        self.reading.next().await
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.desk.leave(&self.id, &self.inbox);
    }
}

impl Events {
    /// Creates the response stream of a request. `first` precedes the response itself.
    pub(super) fn answering(first: Item, answer: Answer) -> Self {
        Self { first: Some(first), encoder: None, source: Source::Answer(answer), over: false }
    }

    /// Creates the stream of messages that belong to no request.
    pub(super) fn standing(standing: Standing) -> Self {
        Self { first: None, encoder: None, source: Source::Standing(standing), over: false }
    }
}

impl http_body::Body for Events {
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
        if this.over {
            return Poll::Ready(None);
        }
        let reading = match &mut this.source {
            Source::Answer(answer) => &mut answer.reading,
            Source::Standing(standing) => &mut standing.reading,
        };
        let item = match this.first.take() {
            Some(first) => first,
            None => match ready!(reading.poll_next(cx)) {
                Some(item) => item,
                None => return Poll::Ready(None),
            },
        };
        this.over = item.last;
        // The message stays reserved until its last piece is read.
        this.encoder = Some(sse::Encoder::new(item.message));
        Poll::Ready(next_piece(&mut this.encoder).map(Ok))
    }
}
