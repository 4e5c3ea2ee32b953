//! The gateway service: construction, reload and shutdown.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;
use http::{Request, Response};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tower_service::Service;
use vmcp_core::Body;

use crate::call::Call;
use crate::dispatch::{Dispatched, begin, run};
use crate::gateway_state::GatewayState;
use crate::notify::authorizer::NotificationAuthorizer;
use crate::seal::Seal;
use crate::settings::{Limits, Settings};
use crate::status;

/// Interval between sweeps of ended sessions and streams.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Timeout for closing the sessions at the backends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// `Service` that presents many MCP servers as one. See the [crate docs](crate) for an example.
///
/// Requests that need no waiting are processed synchronously; other futures are boxed. The service is always ready: requests
/// beyond a limit are rejected.
#[derive(Clone, Debug)]
pub struct Gateway(Arc<Running>);

/// Guard that ends the tasks with the last clone of the service.
#[derive(Debug)]
struct Running {
    gateway: Arc<GatewayState>,
    sweeper: AbortHandle,
}

impl Gateway {
    /// Creates the service and starts observing the backends. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(settings: Settings, limits: Limits, seal: Seal) -> Self {
        let gateway = GatewayState::new(settings, limits, seal);
        let sweeping = Arc::clone(&gateway);
        let sweeper = tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP_INTERVAL).await;
                sweeping.sweep();
            }
        });
        let running = Running { gateway, sweeper: sweeper.abort_handle() };
        Self(Arc::new(running))
    }

    /// Applies a new configuration. Requests in flight finish with the old one; unchanged backends keep their sessions and
    /// connections.
    pub async fn reload(&self, settings: Settings) {
        self.0.gateway.reload(settings).await;
    }

    /// Sets the authorization for notifications on open streams, evaluated per message, and notifies all clients that their
    /// lists may have changed. Call it after each change of policies; otherwise streams keep the permissions from when they
    /// were opened.
    pub fn set_notification_authorizer(&self, admissions: Option<NotificationAuthorizer>) {
        self.0.gateway.set_notification_authorizer(admissions);
    }

    /// Waits until the first fetch from every backend has succeeded or failed, for at most five seconds.
    pub async fn wait_ready(&self) {
        self.wait_ready_within(Duration::from_secs(5)).await;
    }

    /// Equivalent to [`wait_ready`](Self::wait_ready), for at most `limit`.
    pub async fn wait_ready_within(&self, limit: Duration) {
        let snapshot = self.0.gateway.snapshot();
        for backend in &snapshot.backends {
            backend.wait_ready(limit).await;
        }
    }

    /// Returns a report on the backends and the aggregated catalog.
    #[must_use]
    pub fn report(&self) -> status::Report {
        status::report(&self.0.gateway)
    }

    /// Returns the counters.
    #[must_use]
    pub fn counts(&self) -> status::Counts {
        status::counts(&self.0.gateway)
    }

    /// Returns the sizes of the in-memory caches.
    #[must_use]
    pub fn cache_sizes(&self) -> status::CacheSizes {
        status::cache_sizes(&self.0.gateway)
    }

    /// Returns the reports of the backends, in configuration order.
    #[must_use]
    pub fn backends(&self) -> Vec<status::BackendReport> {
        status::backends(&self.0.gateway.snapshot())
    }

    /// Ends long-lived notification streams. Calls continue.
    pub fn drain(&self) {
        self.0.gateway.listeners.end();
        self.0.gateway.sessions.for_each(|session| session.end_notification_stream());
    }

    /// Ends all sessions, including those at the backends. Waits for the backends for at most two seconds.
    pub async fn close(&self) {
        let tasks = self.0.gateway.shut_down();
        let snapshot = self.0.gateway.snapshot();
        let closing = async {
            // The observers close their sessions when they are dropped, so those are counted only afterwards.
            join_all(tasks).await;
            join_all(snapshot.backends.iter().map(|backend| backend.closed())).await;
        };
        if timeout(CLOSE_TIMEOUT, closing).await.is_err() {
            tracing::debug!("sessions at backends are still open after {CLOSE_TIMEOUT:?}");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.sweeper.abort();
        drop(self.gateway.shut_down());
    }
}

/// Response future of [`Gateway`].
pub struct ResponseFuture(Kind);

enum Kind {
    Done(Option<Response<Body>>),
    Pending(DetachOnDrop),
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

impl<B> Service<Request<B>> for Gateway {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        ResponseFuture(match begin(&self.0.gateway, request.into_parts().0) {
            Dispatched::Done(response) => Kind::Done(Some(response)),
            Dispatched::Pending(call) => {
                let kept = call.session.is_some().then(|| Arc::clone(&call));
                Kind::Pending(DetachOnDrop { future: Some(Box::pin(run(call))), call: kept })
            }
        })
    }
}

impl Future for ResponseFuture {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Kind::Done(response) => {
                response.take().map_or(Poll::Pending, |done| Poll::Ready(Ok(done)))
            }
            Kind::Pending(answering) => {
                let Some(future) = &mut answering.future else { return Poll::Pending };
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
                session.streams().own(runtime.spawn(finish_detached(call, future)).abort_handle());
            } else {
                call.gateway.budgets.detached.note_ended();
            }
        }
    }
}

/// Completes a request whose client has disconnected, within the time limit.
async fn finish_detached(call: Arc<Call>, future: BoxedResponse) {
    let answered = timeout(call.gateway.limits.detached_timeout, future).await;
    if let Some(departure) = call.departure() {
        departure.settle();
    }
    if answered.is_err() {
        call.gateway.budgets.detached.note_ended();
        tracing::debug!(method = &*call.message.method(), "detached request timed out");
    }
}

impl fmt::Debug for ResponseFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}
