//! Middleware that converts panics into 500 responses.
//!
//! tower-http's `CatchPanic` boxes the body of each response. That costs an allocation for each call and hides the type of
//! the body from the layers outside of it, so this layer keeps the body's type.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::CatchUnwind;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::Rejection;

/// Layer that applies [`CatchPanic`].
#[derive(Clone, Copy, Debug)]
pub struct CatchPanicLayer;

/// Middleware that responds with 500 if the inner service panics.
#[derive(Clone, Debug)]
pub struct CatchPanic<S>(S);

pin_project! {
    /// Response future of [`CatchPanic`].
    #[derive(Debug)]
    pub struct CatchPanicFuture<F> {
        // `None` after a panic of the call itself.
        #[pin]
        future: Option<CatchUnwind<AssertUnwindSafe<F>>>,
    }
}

impl<S> Layer<S> for CatchPanicLayer {
    type Service = CatchPanic<S>;

    fn layer(&self, inner: S) -> CatchPanic<S> {
        CatchPanic(inner)
    }
}

impl<S> CatchPanic<S> {
    /// Returns a reference to the inner service.
    pub fn get_ref(&self) -> &S {
        &self.0
    }

    /// Consumes `self`, returning the inner service.
    pub fn into_inner(self) -> S {
        self.0
    }
}

impl<S, B, R> Service<Request<B>> for CatchPanic<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = CatchPanicFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let begun = catch_unwind(AssertUnwindSafe(|| self.0.call(request)));
        CatchPanicFuture {
            future: begun.ok().map(|future| AssertUnwindSafe(future).catch_unwind()),
        }
    }
}

impl<F, R, E> Future for CatchPanicFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: From<Bytes>,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let caught = match self.project().future.as_pin_mut() {
            Some(future) => ready!(future.poll(cx)).ok(),
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

    type CallResult = Result<Response<Body>, Infallible>;

    async fn status<S>(service: S) -> u16
    where
        S: Service<Request<()>, Response = Response<Body>, Error = Infallible>,
    {
        CatchPanicLayer.layer(service).oneshot(Request::new(())).await.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn turns_panics_into_one_failed_response() {
        let immediately = service_fn(|_| -> Ready<CallResult> { panic!("immediately") });
        assert_eq!(status(immediately).await, 500);
        let later = service_fn(|_| async {
            assert!(std::hint::black_box(false), "later");
            pending::<CallResult>().await
        });
        assert_eq!(status(later).await, 500);
    }
    #[tokio::test]
    async fn forwards_inner_readiness() {
        let (mut service, mut handle) =
            tower_test::mock::spawn_layer::<Request<()>, Response<Body>, _>(CatchPanicLayer);
        handle.allow(0);
        assert!(service.poll_ready().is_pending());
        handle.allow(1);
        assert!(service.poll_ready().is_ready());
        let response = service.call(Request::new(()));
        let (_, respond) = handle.next_request().await.unwrap();
        respond.send_response(Response::new(Body::from("whole")));
        assert_eq!(response.await.unwrap().body().bytes().unwrap(), "whole");
    }
}
