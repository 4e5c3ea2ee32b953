//! Response body of the layer.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use vmcp_core::BoxError;

pin_project! {
    /// Response body: the body of the inner service, or the buffered bytes of a 403 response that the layer inspected.
    #[derive(Debug)]
    pub struct ResponseBody<R> {
        #[pin]
        kind: BodyKind<R>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = BodyKindProjection]
    enum BodyKind<R> {
        Forwarded { #[pin] body: R },
        Buffered { bytes: Bytes },
    }
}

impl<R> ResponseBody<R> {
    pub(crate) fn forward(body: R) -> Self {
        Self { kind: BodyKind::Forwarded { body } }
    }

    pub(crate) fn buffered(bytes: Bytes) -> Self {
        Self { kind: BodyKind::Buffered { bytes } }
    }
}

impl<R> http_body::Body for ResponseBody<R>
where
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().kind.project() {
            BodyKindProjection::Forwarded { body } => body.poll_frame(cx).map_err(Into::into),
            BodyKindProjection::Buffered { bytes } if bytes.is_empty() => Poll::Ready(None),
            BodyKindProjection::Buffered { bytes } => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Forwarded { body } => body.is_end_stream(),
            BodyKind::Buffered { bytes } => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Forwarded { body } => body.size_hint(),
            BodyKind::Buffered { bytes } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}
