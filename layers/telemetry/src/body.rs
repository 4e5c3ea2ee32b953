//! The answer's body, watched to its end.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::answer::Fault;
use crate::incoming::IncomingWatch;
use crate::outgoing::OutgoingWatch;

pin_project! {
    /// A body whose end is recorded. It changes nothing.
    #[derive(Debug, Default)]
    pub struct ResponseBody<B> {
        #[pin]
        inner: B,
        watch: Watch,
    }
}

#[derive(Debug, Default)]
enum Watch {
    #[default]
    Nobody,
    Incoming(IncomingWatch),
    Outgoing(OutgoingWatch),
}

impl<B: Body> ResponseBody<B> {
    pub(crate) fn incoming(inner: B, watch: Option<IncomingWatch>) -> Self {
        Self::new(inner, watch.map_or(Watch::Nobody, Watch::Incoming))
    }

    pub(crate) fn outgoing(inner: B, watch: Option<OutgoingWatch>) -> Self {
        Self::new(inner, watch.map_or(Watch::Nobody, Watch::Outgoing))
    }

    fn new(inner: B, mut watch: Watch) -> Self {
        // Such a body may never be polled.
        if inner.is_end_stream() {
            watch.end(Fault::None);
        }
        Self { inner, watch }
    }
}

impl Watch {
    fn see(&mut self, piece: &impl Buf) {
        match self {
            Self::Nobody => {}
            Self::Incoming(watch) => watch.see(piece.chunk(), piece.remaining()),
            Self::Outgoing(watch) => watch.see(piece.chunk(), piece.remaining()),
        }
    }

    fn end(&mut self, fault: Fault) {
        match self {
            Self::Nobody => {}
            Self::Incoming(watch) => watch.end(fault),
            Self::Outgoing(watch) => watch.end(fault),
        }
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
                if let Some(piece) = frame.data_ref() {
                    this.watch.see(piece);
                }
                // Whoever sends it does not ask again then.
                if this.inner.is_end_stream() {
                    this.watch.end(Fault::None);
                }
            }
            Poll::Ready(Some(Err(_))) => this.watch.end(Fault::BROKEN),
            Poll::Ready(None) => this.watch.end(Fault::None),
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
        Self { inner: bytes.into(), watch: Watch::Nobody }
    }
}
