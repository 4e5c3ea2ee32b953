//! Connections of clients of the webhook.

use std::fmt;
use std::io;

use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

/// Connection of a client, before TLS.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<C: AsyncRead + AsyncWrite + Send + Unpin + 'static> Connection for C {}

/// Connections that clients open: those of a TCP listener, or those that a test makes.
pub struct Connections(BoxStream<'static, io::Result<Box<dyn Connection>>>);

// === impl Connections ===

impl Connections {
    /// Takes connections from a stream.
    pub fn new<C: Connection>(
        connections: impl Stream<Item = io::Result<C>> + Send + 'static,
    ) -> Self {
        let boxed = |connection| Box::new(connection) as Box<dyn Connection>;
        Self(connections.map(move |accepted| accepted.map(boxed)).boxed())
    }

    /// Waits for the next connection. Returns `None` after the last one.
    pub(super) async fn next(&mut self) -> Option<io::Result<Box<dyn Connection>>> {
        self.0.next().await
    }
}

impl From<TcpListener> for Connections {
    fn from(listener: TcpListener) -> Self {
        Self::new(stream::unfold(listener, async |listener| {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            Some((accepted, listener))
        }))
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connections")
    }
}
