//! HTTP/1.1 connection, driven by its current user.
//!
//! hyper splits a connection into a sender and a future that moves the bytes, and expects the
//! future to run in its own task. Here the task that waits for the response polls the future
//! itself: neither a request nor a response wakes a second task.
//!
//! The two halves exchange data only while the future is polled. So the halves are polled with a
//! no-op waker, always after the future. The future is polled with a [`DriverWaker`]: a task that
//! is woken for another reason does not poll it unnecessarily, and communication between the halves
//! wakes no task.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1},
};
use pin_project_lite::pin_project;
use tokio::task::coop::{Unconstrained, has_budget_remaining, unconstrained};

use crate::{
    Error,
    read_phase::{PolledFrame, noop_context, poll_frame, suppress_wake},
    shared::OpenGuard,
    stream::Stream,
};

/// Maximum read-ahead of a body: a 64 KiB response with its head in one call. Also the maximum
/// buffer of an idle connection.
const MAX_READ_AHEAD: usize = 96 * 1024;

/// Connection with its driver.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<Stream, Full<Bytes>>,
    driver_waker: Arc<DriverWaker>,
    /// `driver_waker` as a [`Waker`] for the driver.
    waker: Waker,
    finished: bool,
    _open: OpenGuard,
}

/// Records that the driver has to be polled, and wakes the task that waits for it.
#[derive(Default)]
struct DriverWaker {
    is_woken: AtomicBool,
    /// Task that waits for the driver; empty while the connection is idle.
    task: AtomicWaker,
}

pin_project! {
    /// Future of the response head, with its connection. Writes nothing before the first poll.
    pub(crate) struct Exchange<F> {
        // Outside of the task's budget: an available response must not appear as missing.
        #[pin]
        response: Unconstrained<F>,
        // `None` after completion.
        connection: Option<Box<Connection>>,
    }
}

/// Result of hyper for a request.
pub(crate) type SendResult = Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>>;

/// Response head with the connection of its body.
pub(crate) struct ReceivedResponse {
    pub(crate) response: Response<Incoming>,
    /// `None` for a shared connection.
    pub(crate) connection: Option<Box<Connection>>,
}

/// Failed exchange, with the request if no byte of it was written.
pub(crate) struct ExchangeError {
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
            .max_buf_size(MAX_READ_AHEAD.max(max_head))
            .handshake(stream)
            .await
            .map_err(|error| Error::from_hyper(error, false))?;
        let driver_waker = Arc::new(DriverWaker::default());
        let waker = Waker::from(Arc::clone(&driver_waker));
        let mut this =
            Box::new(Self { sender, driver, driver_waker, waker, finished: false, _open: open });
        // hyper accepts a request only after its driver has asked for one.
        this.poll_driver();
        Ok(this)
    }

    /// Returns whether the driver has ended: nothing more will arrive.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Polls the driver if it was woken. Wakes no task until [`Self::register_task`].
    pub(crate) fn drive(&mut self) {
        self.clear_task();
        if self.driver_waker.is_woken.swap(false, Ordering::AcqRel) {
            self.poll_driver();
        }
    }

    /// Returns the available part of the body on this connection.
    pub(crate) fn take(&self, body: &mut Incoming) -> PolledFrame {
        let (frame, more) = poll_frame(body);
        if more {
            self.driver_waker.is_woken.store(true, Ordering::Release);
        }
        frame
    }

    /// Wakes the task of `cx` when the driver has to be polled.
    pub(crate) fn register_task(&self, cx: &Context<'_>) {
        self.driver_waker.task.register(cx.waker());
        // The driver may have been woken before the registration.
        if self.driver_waker.is_woken.load(Ordering::Acquire) {
            self.driver_waker.task.wake();
        }
    }

    fn clear_task(&self) {
        drop(self.driver_waker.task.take());
    }

    /// Returns whether the peer is connected, has sent no unexpected data, and the connection can
    /// take a request.
    pub(crate) fn is_usable(&mut self) -> bool {
        // hyper reads after a response until no data is left: later data has woken the driver.
        if self.driver_waker.is_woken.load(Ordering::Acquire) {
            // Outside of the task's budget: an exhausted budget would make every peer appear alive.
            let looking = unconstrained(poll_fn(|_| {
                self.drive();
                Poll::Ready(())
            }));
            let _: Poll<()> = pin!(looking).poll(&mut noop_context());
        }
        self.is_ready_for_request()
    }

    /// Returns whether the connection can take a request, according to the last poll. Drops the
    /// registered task: a pooled connection must neither wake a task nor keep its memory.
    pub(crate) fn prepare_for_pool(&mut self) -> bool {
        self.clear_task();
        self.is_ready_for_request()
    }

    fn is_ready_for_request(&self) -> bool {
        !self.finished && self.sender.is_ready()
    }

    fn poll_driver(&mut self) {
        if self.finished {
            return;
        }
        let mut cx = Context::from_waker(&self.waker);
        if let Poll::Ready(outcome) = Pin::new(&mut self.driver).poll(&mut cx) {
            self.finished = true;
            if let Err(error) = outcome {
                tracing::debug!(%error, "idle connection ended");
            }
        } else if !has_budget_remaining() {
            // An exhausted budget reports `Pending` without reading the socket.
            self.driver_waker.is_woken.store(true, Ordering::Release);
        }
    }
}

/// Sends `request` on `connection`.
pub(crate) fn exchange(
    mut connection: Box<Connection>,
    request: Request<Full<Bytes>>,
) -> Exchange<impl Future<Output = SendResult> + Send> {
    let response = unconstrained(connection.sender.try_send_request(request));
    // Poll the driver, whether or not the sender has woken it.
    connection.driver_waker.is_woken.store(true, Ordering::Release);
    Exchange { response, connection: Some(connection) }
}

impl<F: Future<Output = SendResult>> Future for Exchange<F> {
    type Output = Result<ReceivedResponse, ExchangeError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let connection = this.connection.as_mut().expect("not polled after completion");
        connection.drive();
        let response = this.response.poll(&mut noop_context());
        if response.is_pending() && !connection.finished {
            connection.register_task(cx);
            return Poll::Pending;
        }
        let connection = this.connection.take();
        Poll::Ready(match response {
            Poll::Ready(Ok(response)) => Ok(ReceivedResponse { response, connection }),
            Poll::Ready(Err(error)) => Err(error.into()),
            // The driver has ended without a response.
            Poll::Pending => {
                let error = Error::Closed { sent: true, source: None };
                Err(ExchangeError { error, unsent: None })
            }
        })
    }
}

impl Wake for DriverWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if suppress_wake() {
            return;
        }
        self.is_woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl From<TrySendError<Request<Full<Bytes>>>> for ExchangeError {
    fn from(mut error: TrySendError<Request<Full<Bytes>>>) -> Self {
        let unsent = error.take_message();
        let error = Error::from_hyper(error.into_error(), unsent.is_none());
        Self { error, unsent }
    }
}

#[cfg(test)]
mod tests;
