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
use hyper::{body::Incoming, client::conn::http1};
use tokio::task::coop::unconstrained;

use crate::{Error, egress::OpenGuard, stream::Stream};

/// How much is read of a body before somebody takes it, and so what an idle connection may hold.
const READ_AHEAD: usize = 64 * 1024;

/// A connection with its driver.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<Stream, Full<Bytes>>,
    finished: bool,
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
        let mut this = Box::new(Self { sender, driver, finished: false, _open: open });
        // hyper takes a request only once its driver has asked for one.
        this.is_reusable();
        Ok(this)
    }

    /// Sends `request` and waits for the head of the response.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut response = pin!(unconstrained(self.sender.try_send_request(request)));
        // The first poll writes, and an answer cannot be there yet: no use in a silent one.
        let mut silently = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut silently, true) {
                drive(&mut self.driver, &mut self.finished, &mut silent());
                let ready = response.as_mut().poll(&mut silent());
                if ready.is_ready() {
                    return ready;
                }
            }
            drive(&mut self.driver, &mut self.finished, cx);
            response.as_mut().poll(&mut silent())
        })
        .await
        .map_err(|mut failure| {
            let unsent = failure.take_message();
            let error = Error::from_hyper(failure.into_error(), unsent.is_none());
            Failure { error, unsent }
        })
    }

    /// Moves bytes; `cx` is woken when there may be more to move.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.driver, &mut self.finished, cx);
    }

    /// Moves the bytes that are there and registers nobody.
    pub(crate) fn drive_silently(&mut self) {
        // Outside the task's budget: an exhausted budget would look like a silent socket.
        let driving = unconstrained(poll_fn(|cx| {
            drive(&mut self.driver, &mut self.finished, cx);
            Poll::Ready(())
        }));
        let _: Poll<()> = pin!(driving).poll(&mut silent());
    }

    /// Whether the peer is still there, has sent nothing unasked, and the connection can take a
    /// request. Forgets the task that used it last, so that a pooled connection wakes nobody.
    pub(crate) fn is_reusable(&mut self) -> bool {
        self.drive_silently();
        !self.finished && self.sender.is_ready()
    }
}

pub(crate) fn silent() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn drive(
    driver: &mut http1::Connection<Stream, Full<Bytes>>,
    finished: &mut bool,
    cx: &mut Context<'_>,
) {
    if *finished {
        return;
    }
    if let Poll::Ready(outcome) = Pin::new(driver).poll(cx) {
        *finished = true;
        if let Err(error) = outcome {
            tracing::debug!(%error, "an idle connection ended");
        }
    }
}
