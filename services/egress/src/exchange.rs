//! One HTTP/1.1 connection, driven by whoever uses it.
//!
//! hyper splits a connection into a sender and a future that moves the bytes, and expects the
//! future on a task of its own. Here both stay together and the task that waits for the response
//! polls the future itself: no second task is woken for a request and none for a response.
//!
//! What hyper's two halves exchange becomes visible only while the future is polled, so the halves
//! are asked with a waker that does nothing, always after the future. The task's own waker is
//! registered only where the socket has nothing to give, so a task doesn't wake itself.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1},
};
use tokio::task::coop::unconstrained;

use crate::{Error, egress::OpenGuard, stream::Stream};

/// How much is read of a body before somebody takes it: a 64 KiB answer with its head in one call. Also
/// what an idle connection may hold, if its answers were that large.
const READ_AHEAD: usize = 96 * 1024;

/// A connection with its driver.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<Stream, Full<Bytes>>,
    finished: bool,
    /// Whether no task is registered with it.
    silent: bool,
    _open: OpenGuard,
}

/// An exchange that failed, with the request if no byte of it was written.
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) unsent: Option<Request<Full<Bytes>>>,
}

impl Connection {
    pub(crate) async fn open(
        stream: Stream,
        max_head: usize,
        open: OpenGuard,
    ) -> Result<Box<Self>, Error> {
        let (sender, driver) = http1::Builder::new()
            .max_header_size(max_head)
            .max_buf_size(READ_AHEAD.max(max_head))
            .handshake(stream)
            .await
            .map_err(|error| Error::from_hyper(error, false))?;
        let mut this =
            Box::new(Self { sender, driver, finished: false, silent: true, _open: open });
        // hyper takes a request only once its driver has asked for one.
        this.is_usable();
        Ok(this)
    }

    /// Sends `request` and waits for the head of the response.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Failure> {
        // Outside the task's budget: an answer that is there must not be taken for a missing one.
        let mut response = pin!(unconstrained(self.sender.try_send_request(request)));
        // The first poll writes, and an answer cannot be there yet.
        let mut written = false;
        let answer = poll_fn(|cx| {
            if written {
                self.drive_silently();
                let answer = response.as_mut().poll(&mut silent());
                if answer.is_ready() {
                    return answer.map(Some);
                }
            }
            written = true;
            self.drive(cx);
            match response.as_mut().poll(&mut silent()) {
                // Nobody is left who could bring the answer.
                Poll::Pending if self.finished => Poll::Ready(None),
                answer => answer.map(Some),
            }
        });
        match answer.await {
            Some(answer) => answer.map_err(Failure::from),
            None => {
                Err(Failure { error: Error::Closed { sent: true, source: None }, unsent: None })
            }
        }
    }

    /// Whether the driver has ended: what has not arrived will not arrive any more.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Moves bytes; `cx` is woken when there may be more to move.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        self.silent = false;
        self.poll_driver(cx);
    }

    /// Moves the bytes that are there and registers nobody. With the task's budget exhausted it
    /// moves none, so [`Self::drive`] has to follow where nothing comes of it.
    pub(crate) fn drive_silently(&mut self) {
        self.silent = true;
        self.poll_driver(&mut silent());
    }

    /// Whether the peer is still there, has sent nothing unasked, and the connection can take a
    /// request.
    pub(crate) fn is_usable(&mut self) -> bool {
        // Outside the task's budget: an exhausted one would make every peer look alive.
        let looking = unconstrained(poll_fn(|_| {
            self.drive_silently();
            Poll::Ready(())
        }));
        let _: Poll<()> = pin!(looking).poll(&mut silent());
        self.is_at_rest()
    }

    /// Whether the connection can take a request, as far as the last drive knows. Forgets the task
    /// that drove it, so that a pooled connection neither wakes a task nor keeps its memory.
    pub(crate) fn comes_to_rest(&mut self) -> bool {
        if self.silent { self.is_at_rest() } else { self.is_usable() }
    }

    fn is_at_rest(&self) -> bool {
        !self.finished && self.sender.is_ready()
    }

    fn poll_driver(&mut self, cx: &mut Context<'_>) {
        if self.finished {
            return;
        }
        if let Poll::Ready(outcome) = Pin::new(&mut self.driver).poll(cx) {
            self.finished = true;
            if let Err(error) = outcome {
                tracing::debug!(%error, "an idle connection ended");
            }
        }
    }
}

impl From<TrySendError<Request<Full<Bytes>>>> for Failure {
    fn from(mut failure: TrySendError<Request<Full<Bytes>>>) -> Self {
        let unsent = failure.take_message();
        let error = Error::from_hyper(failure.into_error(), unsent.is_none());
        Self { error, unsent }
    }
}

pub(crate) fn silent() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[cfg(test)]
mod tests;
