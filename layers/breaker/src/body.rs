//! The body of an answer, which shows whether the backend got to its end.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use vmcp_core::{BoxError, Media};
use vmcp_wire::head;
use vmcp_wire::sse::Reader;

use crate::service::Outcome;
use crate::{Class, Classify, Permit, Seen};

/// How much of a message in an event stream is looked at. Longer than this is only the answer.
const WINDOW: usize = 16 << 10;

pin_project! {
    /// A body whose end settles the permit. Its frames and its size hint are those of the body inside.
    pub struct ResponseBody<B, C> {
        #[pin]
        inner: B,
        watch: Option<Watch<C>>,
    }
}

struct Watch<C> {
    permit: Permit,
    classify: C,
    /// For an event stream that has to hold the answer.
    reader: Option<Box<Reader>>,
    outcome: Outcome,
}

impl<B: Body, C> ResponseBody<B, C> {
    pub(crate) fn new(
        inner: B,
        headers: &HeaderMap,
        outcome: Outcome,
        watched: Option<(Permit, C)>,
    ) -> Self {
        let Some((permit, classify)) = watched else { return Self { inner, watch: None } };
        let stream = Media::of(headers) == Media::Events;
        if inner.is_end_stream() || !stream && outcome == Outcome::Stream {
            let success = outcome == Outcome::Response;
            permit.settle(if success { Class::Success } else { Class::Neutral });
            return Self { inner, watch: None };
        }
        let permit = if stream && permit.is_trial() {
            // A call may take long, and the others need not wait for its end: the backend answers again.
            permit.succeed_and_go_on()
        } else {
            Some(permit)
        };
        let reader = stream.then(|| Box::new(Reader::new(WINDOW)));
        Self { inner, watch: permit.map(|permit| Watch { permit, classify, reader, outcome }) }
    }
}

impl<C> Watch<C> {
    /// Whether the answer has gone by.
    fn answered(&mut self, piece: &Bytes) -> bool {
        let Some(reader) = &mut self.reader else { return false };
        reader.push(piece.clone());
        reader.any(|event| match event {
            Ok(event) => head(&event.data).is_ok_and(|head| head.outcome.is_some()),
            Err(_) => true,
        })
    }

    /// The body is over, and no error has come.
    fn end(self) {
        let class = match self.reader {
            None => Class::Success,
            // The server has said where to go on: it may end a stream to have it resumed (MCP 2025-11-25,
            // Streamable HTTP, Sending Messages to the Server).
            Some(reader) if reader.last_id().is_some() => Class::Neutral,
            Some(_) if self.outcome == Outcome::Stream => Class::Neutral,
            Some(_) => Class::Failure,
        };
        self.permit.settle(class);
    }
}

impl<B, C> Body for ResponseBody<B, C>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
    C: Classify,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        let frame = frame.map(|frame| frame.map_err(Into::into));
        let Some(mut watch) = this.watch.take() else { return Poll::Ready(frame) };
        match &frame {
            Some(Ok(piece)) => {
                if piece.data_ref().is_some_and(|piece| watch.answered(piece)) {
                    watch.permit.settle(Class::Success);
                } else if this.inner.is_end_stream() {
                    watch.end();
                } else {
                    *this.watch = Some(watch);
                }
            }
            Some(Err(_)) if watch.outcome == Outcome::Stream => watch.permit.settle(Class::Neutral),
            Some(Err(error)) => {
                let class = watch.classify.classify(Seen::Error(&**error));
                watch.permit.settle(class);
            }
            None => watch.end(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B: fmt::Debug, C> fmt::Debug for ResponseBody<B, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watched = self.watch.is_some();
        f.debug_struct("ResponseBody")
            .field("inner", &self.inner)
            .field("watched", &watched)
            .finish()
    }
}
