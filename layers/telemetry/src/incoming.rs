//! Requests to the gateway: one span and one measurement each, up to the end of the answer's body.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use self::watch::Watch;
use crate::ResponseBody;
use crate::answer::Fault;
use crate::server_side::ServerSide;
use crate::trace::Tracing;

mod watch;

/// Measures and records what clients ask for. [`Telemetry::incoming`](crate::Telemetry::incoming)
/// makes it; see the [crate docs](crate) for an example.
///
/// Reads: `traceparent` and `tracestate`, what inner layers write into the request's
/// [`Trail`](vmcp_core::Trail), and the [`Rejection`](vmcp_core::Rejection) in the extensions of a
/// response. Writes: the `Trail` and [`Trace`](crate::Trace) into the request's extensions. Refuses
/// nothing.
#[derive(Clone, Debug)]
pub struct IncomingLayer(Arc<Shared>);

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) side: ServerSide,
    /// Whether anybody looks at metrics.
    pub(crate) measures: bool,
    pub(crate) tracing: Option<Arc<Tracing>>,
    pub(crate) server: String,
}

/// Measures and records what `S` is asked for. See [`IncomingLayer`].
#[derive(Clone, Debug)]
pub struct Incoming<S> {
    inner: S,
    shared: Arc<Shared>,
}

pin_project! {
    /// Waits for the beginning of the response.
    #[derive(Debug)]
    pub struct IncomingFuture<F> {
        #[pin]
        inner: F,
        watch: Option<Watch>,
    }
}

impl IncomingLayer {
    pub(crate) fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }
}

impl<S> Layer<S> for IncomingLayer {
    type Service = Incoming<S>;

    fn layer(&self, inner: S) -> Incoming<S> {
        Incoming { inner, shared: Arc::clone(&self.0) }
    }
}

impl<S> Incoming<S> {
    /// The wrapped service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Unwraps the service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R> Service<Request<B>> for Incoming<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: http_body::Body,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = IncomingFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let watch = Watch::begin(&self.shared, &mut request);
        IncomingFuture { inner: self.inner.call(request), watch }
    }
}

impl<F, R, E> Future for IncomingFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: http_body::Body,
{
    type Output = Result<Response<ResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.inner.poll(cx));
        let mut watch = this.watch.take();
        Poll::Ready(match answer {
            Ok(response) => {
                if let Some(watch) = &mut watch {
                    watch.answered(&response);
                }
                Ok(response.map(|body| ResponseBody::incoming(body, watch)))
            }
            Err(error) => {
                if let Some(watch) = &mut watch {
                    watch.end(Fault::BROKEN);
                }
                Err(error)
            }
        })
    }
}

pub(crate) use self::watch::{Watch as IncomingWatch, span_name, status};

#[cfg(test)]
mod tests;
