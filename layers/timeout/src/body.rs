//! The response body, which bounds the wait for each frame.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use vmcp_core::BoxError;

use crate::Elapsed;
use crate::idle_timer::IdleTimer;

pin_project! {
    /// Response body of [`Timeout`](crate::Timeout). Fails with [`Elapsed`] if the next frame takes too long.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        inner: B,
        timer: Option<IdleTimer>,
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn new(inner: B, timer: Option<IdleTimer>) -> Self {
        Self { inner, timer }
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = self.project();
        if let Poll::Ready(frame) = this.inner.poll_frame(cx) {
            if let Some(timer) = this.timer {
                timer.restart();
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some(timer) = this.timer else { return Poll::Pending };
        ready!(timer.poll_elapsed(cx));
        let limit = timer.limit();
        *this.timer = None;
        Poll::Ready(Some(Err(Box::new(Elapsed { limit }))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
