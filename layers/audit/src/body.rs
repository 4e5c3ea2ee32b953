//! The response body, which records the event at its end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::pending_event::{Completion, PendingEvent};

pin_project! {
    /// Response body of [`Audit`](crate::Audit). Forwards frames and size hint unchanged.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        inner: B,
        pending: Option<PendingEvent>,
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn new(inner: B, pending: Option<PendingEvent>) -> Self {
        Self { inner, pending }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        let Some(pending) = this.pending else { return Poll::Ready(frame) };
        let completion = match &frame {
            // A server that knows the length does not poll again after the last frame.
            Some(Ok(frame)) => {
                let last = this.inner.is_end_stream();
                if let Some(chunk) = frame.data_ref() {
                    pending.on_chunk(chunk, last);
                }
                last.then_some(Completion::Complete)
            }
            Some(Err(_)) => Some(Completion::Aborted),
            None => Some(Completion::Complete),
        };
        if let Some(completion) = completion {
            pending.complete(completion);
            *this.pending = None;
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
