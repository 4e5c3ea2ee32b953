//! Response bodies of other replicas.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;

use crate::pool::Connection;

/// Body that is a user of its connection. Dropped before its end, it cancels the request.
#[derive(Debug)]
pub(crate) struct PeerBody {
    pub(crate) body: Incoming,
    /// Keeps the connection open.
    pub(crate) _connection: Connection,
    /// Share of the limit of requests in flight.
    pub(crate) _permit: OwnedSemaphorePermit,
}

impl Body for PeerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
