//! Plain or encrypted byte stream of a connection, as hyper expects it.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Maximum number of bytes to copy into one buffer and write at once: a short copy is cheaper than
/// a vectored write in the kernel.
const MAX_COALESCED_WRITE: usize = 2048;

pub(crate) enum Stream {
    Plain(TokioIo<TcpStream>),
    // Boxed: a TLS session is a kilobyte that plain connections need not reserve.
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Stream {
    pub(crate) fn plain(tcp: TcpStream) -> Self {
        Self::Plain(TokioIo::new(tcp))
    }

    pub(crate) fn tls(tls: TlsStream<TcpStream>) -> Self {
        Self::Tls(Box::new(TokioIo::new(tls)))
    }

    /// Returns whether the TLS handshake chose HTTP/2 (ALPN, RFC 7301).
    pub(crate) fn speaks_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.inner().get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_read(cx, buf),
            Self::Tls(io) => Pin::new(io).poll_read(cx, buf),
        }
    }
}

impl Write for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_write(cx, buf),
            Self::Tls(io) => Pin::new(io).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_flush(cx),
            Self::Tls(io) => Pin::new(io).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Self::Tls(io) => Pin::new(io).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(io) => io.is_write_vectored(),
            Self::Tls(io) => io.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(io) => {
                let mut joined = [0; MAX_COALESCED_WRITE];
                match join(bufs, &mut joined) {
                    Some(joined) => Pin::new(io).poll_write(cx, joined),
                    None => Pin::new(io).poll_write_vectored(cx, bufs),
                }
            }
            Self::Tls(io) => Pin::new(io).poll_write_vectored(cx, bufs),
        }
    }
}

/// Copies `bufs` into one buffer; `None` if they do not fit.
fn join<'a>(bufs: &[IoSlice<'_>], room: &'a mut [u8; MAX_COALESCED_WRITE]) -> Option<&'a [u8]> {
    let mut length = 0;
    for buf in bufs {
        let end = length + buf.len();
        room.get_mut(length..end)?.copy_from_slice(buf);
        length = end;
    }
    room.get(..length)
}
