//! The middleware and its response future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;
use vmcp_core::{Backend, BoxError};

use crate::idle_timer::IdleTimer;
use crate::{ResponseBody, TimeoutControl, TimeoutLayer};

/// The error of a backend that sent no frame within the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no response within {limit:?}")]
pub struct Elapsed {
    /// The timeout.
    pub limit: Duration,
}

/// Middleware that bounds the wait for each frame of a response. See the [crate docs](crate) for an example.
#[derive(Clone, Debug)]
pub struct Timeout<S> {
    inner: S,
    layer: TimeoutLayer,
}

pin_project! {
    /// Response future of [`Timeout`].
    #[derive(Debug)]
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        timer: Option<IdleTimer>,
    }
}

impl<S> Timeout<S> {
    pub(crate) fn new(inner: S, layer: TimeoutLayer) -> Self {
        Self { inner, layer }
    }

    /// Returns a reference to the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Consumes `self`, returning the inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R> Service<Request<B>> for Timeout<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let extensions = request.extensions();
        let limit = self.layer.limit(extensions.get::<Backend>());
        let control = extensions.get::<TimeoutControl>().cloned();
        let timer = IdleTimer::new(limit, control, Arc::clone(&self.layer.state));
        ResponseFuture { inner: self.inner.call(request), timer: Some(timer) }
    }
}

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response<ResponseBody<R>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(response) = this.inner.poll(cx) {
            let timer = this.timer.take().map(|mut timer| {
                timer.restart();
                timer
            });
            return Poll::Ready(match response {
                Ok(response) => Ok(response.map(|body| ResponseBody::new(body, timer))),
                Err(error) => Err(error.into()),
            });
        }
        let Some(timer) = this.timer else { return Poll::Pending };
        ready!(timer.poll_elapsed(cx));
        Poll::Ready(Err(Box::new(Elapsed { limit: timer.limit() })))
    }
}

#[cfg(test)]
mod tests;
