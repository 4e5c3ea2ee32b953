//! One HTTP/1.1 connection, driven by whoever uses it.
//!
//! hyper splits a connection into a sender and a future that moves the bytes, and expects the
//! future on a task of its own. Here both stay together and the task that waits for the response
//! polls the future itself: no second task is woken for a request and none for a response.
//!
//! What hyper's two halves exchange becomes visible only while the future is polled, so the halves
//! are asked with a waker that does nothing, always after the future. The future itself is polled with
//! a [`DriverWaker`]: a task that is woken for another reason doesn't poll it in vain, and what the halves
//! tell each other meanwhile wakes no task.

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
use http::{Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1},
};
use pin_project_lite::pin_project;
use tokio::task::coop::{Unconstrained, has_budget_remaining, unconstrained};
use vmcp_core::Media;

use crate::{
    Error,
    egress::OpenGuard,
    json_completeness::JsonCompleteness,
    pool::PoolGuard,
    read_phase::{PolledFrame, poll_frame, suppress_wake},
    stream::Stream,
};

/// How much is read of a body before somebody takes it: a 64 KiB answer with its head in one call. Also
/// what an idle connection may hold, if its answers were that large.
const MAX_READ_AHEAD: usize = 96 * 1024;

/// A connection with its driver.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: http1::Connection<Stream, Full<Bytes>>,
    driver_waker: Arc<DriverWaker>,
    /// The bell, as the driver knows it.
    waker: Waker,
    finished: bool,
    _open: OpenGuard,
}

/// Rings when the driver may have something to do.
#[derive(Default)]
struct DriverWaker {
    is_woken: AtomicBool,
    /// The task that waits for that.
    task: AtomicWaker,
}

pin_project! {
    /// From a request to the head of its response, on a connection of its own. Nothing is written before
    /// this is polled.
    pub(crate) struct Exchange<F> {
        // Outside the task's budget: an answer that is there must not be taken for a missing one.
        #[pin]
        response: Unconstrained<F>,
        // `None` once it is answered.
        connection: Option<Box<Connection>>,
    }
}

/// What hyper says of a request.
pub(crate) type SendResult = Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>>;

/// The head of a response, and where its body comes from.
pub(crate) struct ReceivedResponse {
    pub(crate) response: Response<Incoming>,
    /// `None` where the connection is shared.
    pub(crate) connection: Option<Box<Connection>>,
}

/// An exchange that failed, with the request if no byte of it was written.
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
        // hyper takes a request only once its driver has asked for one.
        this.poll_driver();
        Ok(this)
    }

    /// Whether the driver has ended: what has not arrived will not arrive any more.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Moves bytes, if there may be any to move. Until [`Self::listen`], it wakes nobody.
    pub(crate) fn drive(&mut self) {
        self.clear_task();
        if self.driver_waker.is_woken.swap(false, Ordering::AcqRel) {
            self.poll_driver();
        }
    }

    /// Takes what has come of the body that arrives on this connection.
    pub(crate) fn take(&self, body: &mut Incoming) -> PolledFrame {
        let (frame, more) = poll_frame(body);
        if more {
            self.driver_waker.is_woken.store(true, Ordering::Release);
        }
        frame
    }

    /// Has `cx` woken when there may be bytes to move.
    pub(crate) fn register_task(&self, cx: &Context<'_>) {
        self.driver_waker.task.register(cx.waker());
        // It may have rung before anybody listened.
        if self.driver_waker.is_woken.load(Ordering::Acquire) {
            self.driver_waker.task.wake();
        }
    }

    fn clear_task(&self) {
        drop(self.driver_waker.task.take());
    }

    /// Whether the peer is still there, has sent nothing unasked, and the connection can take a
    /// request.
    pub(crate) fn is_usable(&mut self) -> bool {
        // hyper reads on behind an answer until nothing is there: what has come since has rung.
        if self.driver_waker.is_woken.load(Ordering::Acquire) {
            // Outside the task's budget: an exhausted one would make every peer look alive.
            let looking = unconstrained(poll_fn(|_| {
                self.drive();
                Poll::Ready(())
            }));
            let _: Poll<()> = pin!(looking).poll(&mut noop_context());
        }
        self.is_ready_for_request()
    }

    /// Whether the connection can take a request, as far as the last drive knows. Forgets the task
    /// that listened, so that a pooled connection neither wakes a task nor keeps its memory.
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
                tracing::debug!(%error, "an idle connection ended");
            }
        } else if !has_budget_remaining() {
            // It was told that nothing is there without looking.
            self.driver_waker.is_woken.store(true, Ordering::Release);
        }
    }
}

/// Hands `request` to `connection`.
pub(crate) fn exchange(
    mut connection: Box<Connection>,
    request: Request<Full<Bytes>>,
) -> Exchange<impl Future<Output = SendResult> + Send> {
    let response = unconstrained(connection.sender.try_send_request(request));
    // The driver is to look, whether or not it was told of the request.
    connection.driver_waker.is_woken.store(true, Ordering::Release);
    Exchange { response, connection: Some(connection) }
}

impl<F: Future<Output = SendResult>> Future for Exchange<F> {
    type Output = Result<ReceivedResponse, ExchangeError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(connection) = this.connection else { return Poll::Pending };
        connection.drive();
        let response = this.response.poll(&mut noop_context());
        if response.is_pending() && !connection.finished {
            connection.register_task(cx);
            return Poll::Pending;
        }
        match (response, this.connection.take()) {
            (Poll::Ready(response), Some(connection)) => Poll::Ready(match response {
                Ok(response) => Ok(ReceivedResponse { response, connection: Some(connection) }),
                Err(error) => Err(error.into()),
            }),
            // Nobody is left who could bring the answer.
            (Poll::Pending, Some(_)) => {
                let error = Error::Closed { sent: true, source: None };
                Poll::Ready(Err(ExchangeError { error, unsent: None }))
            }
            (_, None) => Poll::Pending,
        }
    }
}

impl ReceivedResponse {
    /// The response with a body that gives the connection and the lease back at its end.
    pub(crate) fn accept(
        self,
        guard: PoolGuard,
        max_body: u64,
    ) -> Result<Response<crate::Incoming>, Error> {
        let Self { response, connection } = self;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Error::Protocol { reason: "it switches protocols unasked", source: None });
        }
        let limit = (Media::of(response.headers()) != Media::Events).then_some(max_body);
        if let Some(limit) = limit
            && response.body().size_hint().lower() > limit
        {
            return Err(Error::BodyTooLarge { limit });
        }
        let ends_with_connection = connection.is_some()
            && response.body().size_hint().exact().is_none()
            && !response.headers().contains_key(header::TRANSFER_ENCODING);
        let json = (ends_with_connection && Media::of(response.headers()) == Media::Json)
            .then(JsonCompleteness::default);
        Ok(response.map(|body| match connection {
            Some(connection) => crate::Incoming::exclusive(body, connection, guard, limit, json),
            None => crate::Incoming::shared(body, guard, limit),
        }))
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

pub(crate) fn noop_context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[cfg(test)]
mod tests;
