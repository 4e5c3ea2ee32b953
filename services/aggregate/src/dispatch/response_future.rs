//! Response future of the service.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Response;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tracing::Instrument;
use vmcp_core::Body;

use super::{DispatchOutcome, Dispatcher};
use crate::call::Call;

/// Contract of [`Future::poll`].
const POLLED: &str = "a future is not polled after it is ready";

/// Response future of [`Gateway`](crate::Gateway).
pub struct ResponseFuture(Kind);

enum Kind {
    Done(Option<Response<Body>>),
    Pending(DetachOnDrop),
    /// Dropping it before the session is known drops the request.
    Deferred(BoxedResponse),
}

/// Request in flight. A request of a session continues when this is dropped: a client that disconnects has not cancelled it
/// (MCP 2025-11-25, Streamable HTTP, Sending Messages to the Server).
struct DetachOnDrop {
    /// `None` once the response is complete.
    future: Option<BoxedResponse>,
    /// `None` for clients without a session.
    call: Option<Arc<Call>>,
}

type BoxedResponse = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

impl ResponseFuture {
    /// Creates the future of a request that `dispatcher` has begun to process.
    pub(crate) fn new(dispatcher: &Arc<Dispatcher>, begun: DispatchOutcome) -> Self {
        Self(match begun {
            DispatchOutcome::Done(response) => Kind::Done(Some(response)),
            DispatchOutcome::Deferred(future) => Kind::Deferred(future),
            DispatchOutcome::Pending(call) => {
                let kept = call.session.is_some().then(|| Arc::clone(&call));
                let future = Box::pin(Arc::clone(dispatcher).run(call));
                Kind::Pending(DetachOnDrop { future: Some(future), call: kept })
            }
        })
    }
}

impl Future for ResponseFuture {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Kind::Done(response) => Poll::Ready(Ok(response.take().expect(POLLED))),
            Kind::Deferred(future) => future.as_mut().poll(cx).map(Ok),
            Kind::Pending(answering) => {
                let future = answering.future.as_mut().expect(POLLED);
                let polled = future.as_mut().poll(cx).map(Ok);
                if polled.is_ready() {
                    answering.future = None;
                }
                polled
            }
        }
    }
}

impl Drop for DetachOnDrop {
    fn drop(&mut self) {
        if let (Some(future), Some(call)) = (self.future.take(), self.call.take())
            && let Some(session) = call.session.clone()
            && let Ok(runtime) = Handle::try_current()
        {
            if call.detach() {
                let finishing = finish_detached(call, future).in_current_span();
                session.streams().own(runtime.spawn(finishing).abort_handle());
            } else {
                call.context.budgets.detached.count_ended();
            }
        }
    }
}

/// Completes a request whose client has disconnected, within the time limit.
async fn finish_detached(call: Arc<Call>, future: BoxedResponse) {
    let answered = timeout(call.context.detached_timeout, future).await;
    if let Some(departure) = call.departure() {
        departure.release();
    }
    if answered.is_err() {
        call.context.budgets.detached.count_ended();
        tracing::debug!(method = &*call.message.method(), "detached request timed out");
    }
}

impl fmt::Debug for ResponseFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
