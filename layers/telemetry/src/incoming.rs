//! Requests to the gateway: one span and one measurement each, up to the end of the answer's body.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;
use vmcp_metrics::Fault;

use crate::ResponseBody;
use crate::recorder::Shared;
use crate::watch::Watch;

/// Measures and records what clients ask for. [`Recorder::incoming`](crate::Recorder::incoming) makes
/// it; see the [crate docs](crate) for an example.
///
/// Reads: `traceparent` and `tracestate`, what inner layers write into the request's
/// [`Trail`](vmcp_core::Trail), and the [`Rejection`](vmcp_core::Rejection) in the extensions of a
/// response. Writes: the `Trail`, which it watches, into the request's extensions. Refuses nothing.
#[derive(Clone, Debug)]
pub struct IncomingLayer {
    shared: Arc<Shared>,
    mcp: bool,
}

/// Measures and records what `S` is asked for. See [`IncomingLayer`].
#[derive(Clone, Debug)]
pub struct Incoming<S> {
    inner: S,
    shared: Arc<Shared>,
    mcp: bool,
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
    pub(crate) fn new(shared: Arc<Shared>, mcp: bool) -> Self {
        Self { shared, mcp }
    }
}

impl<S> Layer<S> for IncomingLayer {
    type Service = Incoming<S>;

    fn layer(&self, inner: S) -> Incoming<S> {
        Incoming { inner, shared: Arc::clone(&self.shared), mcp: self.mcp }
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
        let watch = Watch::asked(&self.shared, &mut request, self.mcp);
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
                Ok(response.map(|body| ResponseBody::new(body, watch)))
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

#[cfg(test)]
mod tests;
