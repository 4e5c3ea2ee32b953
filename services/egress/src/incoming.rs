//! The body of a response, and the connection that it arrives on.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use vmcp_core::BoxError;

use crate::{Error, exchange::Connection, json_completeness::JsonCompleteness, pool::PoolGuard};

/// How much of a body that nobody reads to its end is skipped to keep the connection, provided
/// that it has arrived already.
const MAX_SKIPPED: usize = 16 * 1024;

/// A response's body. Reading it moves the bytes of its connection; reading it to the end makes
/// the connection available to other requests.
///
/// Dropping it before the end closes an HTTP/1.1 connection and resets an HTTP/2 stream, so the
/// backend learns that nobody waits any more.
///
/// `application/json` whose only end is that of the connection, and that is not whole then, fails with [`Error::Closed`]:
/// nothing else tells it from one that was cut.
///
/// More bytes than the client's cap fail with [`Error::BodyTooLarge`]. A `text/event-stream` has
/// no cap on the whole: it has no end, and its events are bounded by who reads them.
pub struct Incoming {
    body: hyper::body::Incoming,
    /// `None` once the body has ended or failed.
    source: Option<Source>,
    limit: Option<u64>,
    received: u64,
    /// How far JSON has come whose only end is that of the connection.
    json: Option<JsonCompleteness>,
}

/// What has to be kept for as long as the body lasts.
enum Source {
    Exclusive { connection: Box<Connection>, guard: PoolGuard },
    Shared { _lease: PoolGuard },
}

impl Incoming {
    /// The body of a response on a connection of its own.
    pub(crate) fn exclusive(
        body: hyper::body::Incoming,
        connection: Box<Connection>,
        guard: PoolGuard,
        limit: Option<u64>,
        json: Option<JsonCompleteness>,
    ) -> Self {
        let source = Some(Source::Exclusive { connection, guard });
        let mut this = Self { body, source, limit, received: 0, json };
        if this.body.is_end_stream() {
            this.release();
        }
        this
    }

    /// The body of a response on a shared connection.
    pub(crate) fn shared(
        body: hyper::body::Incoming,
        guard: PoolGuard,
        limit: Option<u64>,
    ) -> Self {
        let source = (!body.is_end_stream()).then_some(Source::Shared { _lease: guard });
        Self { body, source, limit, received: 0, json: None }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let body = &mut self.body;
        let polled = match &mut self.source {
            None => return Poll::Ready(None),
            Some(Source::Shared { .. }) => Pin::new(body).poll_frame(cx),
            Some(Source::Exclusive { connection, .. }) => {
                // A short body is there with its head, and then nothing has to be driven.
                let mut polled = connection.take(body);
                if polled.is_pending() {
                    connection.drive();
                    polled = connection.take(body);
                }
                if polled.is_pending() && connection.is_finished() {
                    let closed = Error::Closed { sent: true, source: None };
                    return Poll::Ready(Some(Err(closed)));
                }
                if polled.is_pending() {
                    connection.register_task(cx);
                }
                polled
            }
        };
        polled.map(|frame| frame.map(|frame| frame.map_err(Error::after_sending)))
    }

    /// Counts a frame, and ends the exchange where it was the last.
    fn accept(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, Error> {
        self.received += frame.data_ref().map_or(0, |data| data.len() as u64);
        if let Some(limit) = self.limit.filter(|limit| self.received > *limit) {
            self.source = None;
            return Err(Error::BodyTooLarge { limit });
        }
        if let (Some(json), Some(data)) = (&mut self.json, frame.data_ref()) {
            json.push(data);
        }
        // Who knows the length doesn't ask again, so the connection must go back now.
        if self.body.is_end_stream() {
            self.release();
        }
        Ok(frame)
    }

    fn release(&mut self) {
        if let Some(Source::Exclusive { connection, guard }) = self.source.take() {
            guard.release(connection);
        }
    }

    /// Whether the rest of the body has arrived and is short enough to be skipped.
    fn skip_to_end(&mut self) -> bool {
        let Some(Source::Exclusive { connection, .. }) = &mut self.source else { return false };
        let mut skipped = 0;
        while skipped <= MAX_SKIPPED {
            connection.drive();
            match connection.take(&mut self.body) {
                Poll::Ready(None) => return true,
                Poll::Ready(Some(Ok(frame))) => {
                    skipped += frame.data_ref().map_or(0, Bytes::len).max(1);
                }
                Poll::Ready(Some(Err(_))) | Poll::Pending => return false,
            }
        }
        false
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.poll_source(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) if self.json.take().is_some_and(JsonCompleteness::is_incomplete) => {
                self.source = None;
                let closed = Error::Closed { sent: true, source: None };
                Poll::Ready(Some(Err(closed.into())))
            }
            Poll::Ready(None) => {
                self.release();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Ok(frame))) => {
                Poll::Ready(Some(self.accept(frame).map_err(BoxError::from)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.source = None;
                Poll::Ready(Some(Err(error.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.source.is_none() { SizeHint::with_exact(0) } else { self.body.size_hint() }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if self.skip_to_end() {
            self.release();
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("received", &self.received)
            .field("ended", &self.source.is_none())
            .finish_non_exhaustive()
    }
}
