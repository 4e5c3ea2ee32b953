//! Middleware that converts panics into 500 responses.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::CatchUnwind;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::Rejection;

/// Layer that applies [`CatchPanic`].
#[derive(Clone, Copy, Debug)]
pub struct CatchPanicLayer;

/// Middleware that responds with 500 if the inner service panics.
#[derive(Clone, Debug)]
pub struct CatchPanic<S>(S);

/// Response future of [`CatchPanic`].
#[derive(Debug)]
pub struct ResponseFuture<F>(Option<CatchUnwind<AssertUnwindSafe<F>>>);

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
        let begun = catch_unwind(AssertUnwindSafe(|| self.0.call(request)));
        ResponseFuture(begun.ok().map(|future| AssertUnwindSafe(future).catch_unwind()))
    }
}

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>> + Unpin,
    R: From<Bytes>,
{
    type Output = Result<Response<R>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let caught = match &mut self.0 {
            Some(future) => std::task::ready!(Pin::new(future).poll(cx)).ok(),
            None => None,
        };
        Poll::Ready(caught.unwrap_or_else(|| {
            tracing::error!("a request panicked: please report this");
            Ok(Rejection::internal().into_response(None))
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, pending};

    use tower::{ServiceExt, service_fn};
    use vmcp_core::Body;

    use super::*;

    type Answer = Result<Response<Body>, Infallible>;

    async fn status<S>(service: S) -> u16
    where
        S: Service<Request<()>, Response = Response<Body>, Error = Infallible, Future: Unpin>,
    {
        CatchPanicLayer.layer(service).oneshot(Request::new(())).await.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn turns_panics_into_one_failed_response() {
        let at_once = service_fn(|_| -> Ready<Answer> { panic!("at once") });
        assert_eq!(status(at_once).await, 500);
        let later = service_fn(|_| {
            Box::pin(async {
                assert!(std::hint::black_box(false), "later");
                pending::<Answer>().await
            })
        });
        assert_eq!(status(later).await, 500);
    }
}
