//! Middleware that turns a panic below into a 500.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::CatchUnwind;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::Rejection;

/// Makes [`CatchPanic`].
#[derive(Clone, Copy, Debug)]
pub struct CatchPanicLayer;

/// Answers 500 where the service below panics.
#[derive(Clone, Debug)]
pub struct CatchPanic<S>(S);

/// The service's future, caught.
#[derive(Debug)]
pub struct ResponseFuture<F>(CatchUnwind<AssertUnwindSafe<F>>);

impl<S> Layer<S> for CatchPanicLayer {
    type Service = CatchPanic<S>;

    fn layer(&self, inner: S) -> CatchPanic<S> {
        CatchPanic(inner)
    }
}

impl<S, B, R> Service<Request<B>> for CatchPanic<S>
where
    S: Service<Request<B>, Response = Response<R>, Future: Unpin>,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ResponseFuture(AssertUnwindSafe(self.0.call(request)).catch_unwind())
    }
}

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>> + Unpin,
    R: From<Bytes>,
{
    type Output = Result<Response<R>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|caught| {
            caught.unwrap_or_else(|_| {
                tracing::error!("a request panicked: please report this");
                Ok(Rejection::internal().into_response(None))
            })
        })
    }
}
