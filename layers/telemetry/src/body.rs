//! The response body, which completes the record at its end.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::metrics::ErrorType;
use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::request_observer::RequestObserver;

pin_project! {
    /// Response body of the telemetry middleware. Forwards everything unchanged.
    #[derive(Debug, Default)]
    pub struct ResponseBody<B> {
        #[pin]
        inner: B,
        observer: Option<RequestObserver>,
    }
}

impl<B: Body> ResponseBody<B> {
    pub(crate) fn new(inner: B, mut observer: Option<RequestObserver>) -> Self {
        // An empty body may never be polled.
        if inner.is_end_stream() {
            end(&mut observer, ErrorType::None);
        }
        Self { inner, observer }
    }
}

fn end(observer: &mut Option<RequestObserver>, error_type: ErrorType) {
    if let Some(observer) = observer {
        observer.end(error_type);
    }
}

impl<B: Body> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let polled = this.inner.as_mut().poll_frame(cx);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(data), Some(observer)) = (frame.data_ref(), &mut this.observer) {
                    observer.on_data(data.chunk(), data.remaining());
                }
                // A server that knows the length does not poll again.
                if this.inner.is_end_stream() {
                    end(this.observer, ErrorType::None);
                }
            }
            Poll::Ready(Some(Err(_))) => end(this.observer, ErrorType::BROKEN),
            Poll::Ready(None) => end(this.observer, ErrorType::None),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B: From<Bytes>> From<Bytes> for ResponseBody<B> {
    fn from(bytes: Bytes) -> Self {
        Self { inner: bytes.into(), observer: None }
    }
}
