//! Buffer for the beginning of a response until the response is identified.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use vmcp_core::{Body, BoxError};

/// Received chunks; a single chunk is not copied.
#[derive(Default)]
pub(super) struct BufferedPrefix {
    first: Bytes,
    joined: BytesMut,
}

impl BufferedPrefix {
    pub(super) fn push(&mut self, data: Bytes) {
        if self.bytes().is_empty() {
            self.first = data;
            return;
        }
        if self.joined.is_empty() {
            self.joined.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.joined.extend_from_slice(&data);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        if self.joined.is_empty() { &self.first } else { &self.joined }
    }

    pub(super) fn take(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.freeze() }
    }
}

/// Body that yields the buffered bytes and then the remaining ones.
pub(super) struct PrefixedBody {
    prefix: Bytes,
    body: Body,
    /// Error of the body that has not been returned yet.
    failure: Option<BoxError>,
}

impl PrefixedBody {
    pub(super) fn new(prefix: Bytes, body: Body) -> Self {
        Self { prefix, body, failure: None }
    }
}

impl http_body::Body for PrefixedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.prefix.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.prefix)))));
        }
        if let Some(failure) = self.failure.take() {
            return Poll::Ready(Some(Err(failure)));
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Err(failure))) = frame {
            // Yield the received bytes first: an HTTP/1.1 client that has not received any may resend the request.
            self.failure = Some(failure);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.prefix.is_empty() && self.failure.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let prefix = self.prefix.len() as u64;
        let rest = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + prefix);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + prefix);
        }
        hint
    }
}
