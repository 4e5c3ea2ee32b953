//! The body of an answer while it passes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::pending::{End, Pending};

pin_project! {
    /// A body whose end makes an event. Its frames and its size hint are those of the body inside.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        inner: B,
        pending: Option<Pending>,
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn new(inner: B, pending: Option<Pending>) -> Self {
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
        let ended = match &frame {
            // A server that knows the length does not ask again after the last piece.
            Some(Ok(frame)) => {
                let last = this.inner.is_end_stream();
                if let Some(piece) = frame.data_ref() {
                    pending.piece(piece, last);
                }
                last.then_some(End::Whole)
            }
            Some(Err(_)) => Some(End::Broken),
            None => Some(End::Whole),
        };
        if let Some(end) = ended {
            pending.end(end);
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
