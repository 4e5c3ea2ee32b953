//! The beginning of an answer that is held until it is known what the answer is.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use vmcp_core::{Body, BoxError};

/// Chunks so far; a single one is not copied.
#[derive(Default)]
pub(super) struct Held {
    first: Bytes,
    joined: BytesMut,
}

impl Held {
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

/// What was held, and then what follows.
pub(super) struct Rest {
    held: Bytes,
    body: Body,
    /// Why the body broke off, until that is told.
    failure: Option<BoxError>,
}

impl Rest {
    pub(super) fn new(held: Bytes, body: Body) -> Self {
        Self { held, body, failure: None }
    }
}

impl http_body::Body for Rest {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.held.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.held)))));
        }
        if let Some(failure) = self.failure.take() {
            return Poll::Ready(Some(Err(failure)));
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Err(failure))) = frame {
            // What came before goes out first: an HTTP/1.1 client that saw nothing on its connection may send the
            // request again.
            self.failure = Some(failure);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.failure.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.len() as u64;
        let rest = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + held);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + held);
        }
        hint
    }
}
