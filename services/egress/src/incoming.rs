//! Body of a response, with the connection that it arrives on.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use vmcp_core::{BoxError, MediaType};

use crate::{
    Error,
    exchange::{Connection, ReceivedResponse},
    json_completeness::JsonCompleteness,
    pool::PoolGuard,
};

/// Maximum size of an unread rest of a body that is skipped to keep the connection, if it has
/// already arrived.
const MAX_SKIPPED: usize = 16 * 1024;

/// Response body. Reading it moves the bytes of its connection; at its end, the connection becomes
/// available to other requests.
///
/// Dropping it early closes an HTTP/1.1 connection or resets an HTTP/2 stream, so that the backend
/// stops.
///
/// `application/json` that ends with its connection, and is incomplete then, fails with
/// [`Error::Closed`]: it may have been truncated.
///
/// A body over the client's limit fails with [`Error::BodyTooLarge`]. A `text/event-stream` has no
/// total limit: it has no end, and its reader limits the events.
pub struct Incoming {
    body: hyper::body::Incoming,
    /// `None` after the body has ended or failed.
    source: Option<Source>,
    limit: Option<u64>,
    received: u64,
    /// Completeness of JSON that ends with its connection.
    json: Option<JsonCompleteness>,
}

/// Connection that the body holds until its end.
enum Source {
    Exclusive { connection: Box<Connection>, guard: PoolGuard },
    Shared { _lease: PoolGuard },
}

impl Incoming {
    /// Returns the response with a body that releases the connection and the guard at its end.
    pub(crate) fn accept(
        received: ReceivedResponse,
        guard: PoolGuard,
        max_body: u64,
    ) -> Result<Response<Self>, Error> {
        let ReceivedResponse { response, connection } = received;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Error::Protocol { reason: "unexpected protocol switch", source: None });
        }
        let limit =
            (MediaType::of(response.headers()) != MediaType::EventStream).then_some(max_body);
        if let Some(limit) = limit
            && response.body().size_hint().lower() > limit
        {
            return Err(Error::BodyTooLarge { limit });
        }
        let ends_with_connection = connection.is_some()
            && response.body().size_hint().exact().is_none()
            && !response.headers().contains_key(header::TRANSFER_ENCODING);
        let json = (ends_with_connection && MediaType::of(response.headers()) == MediaType::Json)
            .then(JsonCompleteness::default);
        Ok(response.map(|body| match connection {
            Some(connection) => Self::exclusive(body, connection, guard, limit, json),
            None => Self::shared(body, guard, limit),
        }))
    }

    /// Creates the body of a response on an exclusive connection.
    fn exclusive(
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

    /// Creates the body of a response on a shared connection.
    fn shared(body: hyper::body::Incoming, guard: PoolGuard, limit: Option<u64>) -> Self {
        let source = (!body.is_end_stream()).then_some(Source::Shared { _lease: guard });
        Self { body, source, limit, received: 0, json: None }
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let body = &mut self.body;
        let polled = match &mut self.source {
            None => return Poll::Ready(None),
            Some(Source::Shared { .. }) => Pin::new(body).poll_frame(cx),
            Some(Source::Exclusive { connection, .. }) => {
                // A short body arrives with the head, without another poll of the driver.
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

    /// Counts a frame, and releases the connection after the last one.
    fn count(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, Error> {
        self.received += frame.data_ref().map_or(0, |data| data.len() as u64);
        if let Some(limit) = self.limit.filter(|limit| self.received > *limit) {
            self.source = None;
            return Err(Error::BodyTooLarge { limit });
        }
        if let (Some(json), Some(data)) = (&mut self.json, frame.data_ref()) {
            json.push(data);
        }
        // A reader that knows the length does not poll again, so the connection must be released
        // now.
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

    /// Returns whether the rest of the body has arrived and is short enough to be skipped.
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
                Poll::Ready(Some(self.count(frame).map_err(BoxError::from)))
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
