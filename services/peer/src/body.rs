//! Response bodies of other replicas.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;

use crate::connect::Sender;
use crate::handle::ReplicaHandle;
use crate::pool::Pool;

/// Body that returns its connection to the pool at its end. Dropped earlier, it closes the connection.
#[derive(Debug)]
pub(crate) struct PeerBody {
    pub(crate) body: Incoming,
    /// `None` after the end.
    pub(crate) connection: Option<PooledConnection>,
}

/// Connection in use, with its share of the limit.
#[derive(Debug)]
pub(crate) struct PooledConnection {
    pub(crate) peer: ReplicaHandle,
    pub(crate) sender: Sender,
    pub(crate) pool: Arc<Pool>,
    pub(crate) permit: OwnedSemaphorePermit,
}

impl PooledConnection {
    fn finish(self) {
        let Self { peer, sender, pool, permit } = self;
        pool.put(peer, sender);
        drop(permit);
    }
}

impl Body for PeerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let ended = match &frame {
            Some(Ok(_)) => self.body.is_end_stream(),
            Some(Err(_)) => {
                self.connection = None;
                false
            }
            None => true,
        };
        if ended && let Some(connection) = self.connection.take() {
            connection.finish();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for PeerBody {
    fn drop(&mut self) {
        // A response without a body is not polled.
        if self.body.is_end_stream()
            && let Some(connection) = self.connection.take()
        {
            connection.finish();
        }
    }
}
