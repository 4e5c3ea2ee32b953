//! The response future.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use pin_project_lite::pin_project;

use crate::pending_event::{Completion, PendingEvent};
use crate::{Capacity, ResponseBody};

pin_project! {
    /// Response future of [`Audit`](crate::Audit).
    pub struct ResponseFuture<F, R> {
        #[pin]
        inner: F,
        pending: Option<PendingEvent>,
        // A response that waits for capacity of the sink.
        waiting: Option<(Response<R>, Capacity)>,
    }
}

impl<F, R> ResponseFuture<F, R> {
    pub(crate) fn new(inner: F, pending: PendingEvent) -> Self {
        Self { inner, pending: Some(pending), waiting: None }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: http_body::Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = if let Some((_, capacity)) = this.waiting {
            ready!(capacity.as_mut().poll(cx));
            this.waiting.take().map(|(response, _)| response).expect("checked above")
        } else {
            match ready!(this.inner.poll(cx)) {
                Ok(response) => response,
                Err(error) => {
                    if let Some(mut pending) = this.pending.take() {
                        pending.complete(Completion::Aborted);
                    }
                    return Poll::Ready(Err(error));
                }
            }
        };
        if let Some(mut capacity) = this.pending.as_ref().and_then(PendingEvent::reserve)
            && capacity.as_mut().poll(cx).is_pending()
        {
            *this.waiting = Some((response, capacity));
            return Poll::Pending;
        }
        let pending = this.pending.take().and_then(|pending| pending.on_response(&response));
        Poll::Ready(Ok(response.map(|body| ResponseBody::new(body, pending))))
    }
}

impl<F, R> fmt::Debug for ResponseFuture<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("pending", &self.pending).finish_non_exhaustive()
    }
}
