//! Timeout for clients that do not read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::{Instant, Sleep, sleep};
use vmcp_core::{ByteBudget, TransferRate};

/// Maximum time without reading while data for the client is pending.
const SEND_TIMEOUT: Duration = Duration::from_mins(1);

/// Connection that fails if its client does not read.
///
/// Pending data for a client that reads nothing is kept for [`SEND_TIMEOUT`]. While other requests wait for bytes of the
/// budget, the client must read at the minimum [`TransferRate`].
pub(crate) struct SendTimeout<I> {
    inner: I,
    budget: ByteBudget,
    /// Set while data for the client is pending.
    stall: Option<Box<StallTimer>>,
}

/// State of a client that has not read all written data.
struct StallTimer {
    /// The time of the last progress.
    since: Instant,
    transfer_rate: TransferRate,
    interval: Pin<Box<Sleep>>,
}

impl<I> SendTimeout<I> {
    pub(crate) fn new(inner: I, budget: ByteBudget) -> Self {
        Self { inner, budget, stall: None }
    }

    /// Returns the result of a write, or an error if the client has not read for too long.
    fn check(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => {
                if let Some(stall) = &mut self.stall {
                    stall.transfer_rate.add(bytes);
                    stall.since = Instant::now();
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let stall = self.stall.get_or_insert_with(|| Box::new(StallTimer::new()));
                ready!(stall.poll(cx, &self.budget));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl StallTimer {
    fn new() -> Self {
        let interval = Box::pin(sleep(TransferRate::INTERVAL));
        Self { since: Instant::now(), transfer_rate: TransferRate::default(), interval }
    }

    /// Returns `Ready` once the client has not read for too long.
    fn poll(&mut self, cx: &mut Context<'_>, budget: &ByteBudget) -> Poll<()> {
        loop {
            ready!(self.interval.as_mut().poll(cx));
            if self.transfer_rate.end_interval(budget) || self.since.elapsed() >= SEND_TIMEOUT {
                return Poll::Ready(());
            }
            self.interval.set(sleep(TransferRate::INTERVAL));
        }
    }
}

impl<I: Read + Unpin> Read for SendTimeout<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<I: Write + Unpin> Write for SendTimeout<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, data);
        self.check(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes once all is written.
        self.stall = None;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.check(cx, written)
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const BUFFER: usize = 20 << 10;

    fn connection(
        budget: &ByteBudget,
    ) -> (DuplexStream, TokioIo<SendTimeout<TokioIo<DuplexStream>>>) {
        let (client, server) = duplex(BUFFER);
        (client, TokioIo::new(SendTimeout::new(TokioIo::new(server), budget.clone())))
    }

    #[tokio::test(start_paused = true)]
    async fn closes_connection_of_stalled_client() {
        let budget = ByteBudget::new(100);
        let (_client, mut server) = connection(&budget);
        server.write_all(&vec![0; BUFFER]).await.unwrap();
        server.flush().await.unwrap();
        tokio::time::advance(Duration::from_mins(10)).await;
        let begun = Instant::now();
        let error = server.write_all(&[0; 1]).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, SEND_TIMEOUT));
    }

    #[tokio::test(start_paused = true)]
    async fn serves_slow_client_within_budget() {
        let budget = ByteBudget::new(100);
        let (mut client, mut server) = connection(&budget);
        let reading = async {
            for _ in 0..10 {
                tokio::time::sleep(SEND_TIMEOUT / 2).await;
                client.read_exact(&mut [0; 1000]).await.unwrap();
            }
        };
        let data = vec![0; BUFFER + 10_000];
        let (written, ()) = tokio::join!(server.write_all(&data), reading);
        written.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn slow_client_yields_budget_to_waiting_requests() {
        let budget = ByteBudget::new(100);
        let (mut client, mut server) = connection(&budget);
        let mut held = budget.open(budget.backend("a"));
        held.try_grow(50).unwrap();
        let mut waiting = budget.open(budget.backend("a"));
        let waiting = tokio::spawn(async move { waiting.grow(1).await });
        let reading = async {
            for _ in 0..3 {
                tokio::time::sleep(TransferRate::INTERVAL * 9 / 10).await;
                client.read_exact(&mut vec![0; 18 << 10]).await.unwrap();
            }
            tokio::time::sleep(SEND_TIMEOUT).await;
        };
        let begun = Instant::now();
        let sending = async {
            let error = server.write_all(&vec![0; 200 << 10]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            begun.elapsed()
        };
        let (cut, ()) = tokio::join!(sending, reading);
        assert!((3..=5).contains(&cut.as_secs()), "{cut:?}");
        waiting.abort();
    }
}
