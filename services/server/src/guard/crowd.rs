//! Middleware that refuses requests while too many are under way.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::Rejection;

/// Makes [`Crowd`].
#[derive(Clone, Debug)]
pub struct CrowdLayer(Arc<Semaphore>);

/// Answers 503 with `Retry-After` while too many requests are under way.
///
/// A request counts until its response begins: streams are bounded by the connections they are on.
#[derive(Clone, Debug)]
pub struct Crowd<S> {
    inner: S,
    seats: Arc<Semaphore>,
}

/// The service's future, or the refusal.
#[derive(Debug)]
pub enum ResponseFuture<F> {
    /// Under way.
    Seated(F, OwnedSemaphorePermit),
    /// Refused.
    Full,
}

impl CrowdLayer {
    /// At most `requests` at a time.
    #[must_use]
    pub fn new(requests: usize) -> Self {
        Self(Arc::new(Semaphore::new(requests.min(Semaphore::MAX_PERMITS))))
    }
}

impl<S> Layer<S> for CrowdLayer {
    type Service = Crowd<S>;

    fn layer(&self, inner: S) -> Crowd<S> {
        Crowd { inner, seats: Arc::clone(&self.0) }
    }
}

impl<S, B, R> Service<Request<B>> for Crowd<S>
where
    S: Service<Request<B>, Response = Response<R>, Future: Unpin>,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match Arc::clone(&self.seats).try_acquire_owned() {
            Ok(seat) => ResponseFuture::Seated(self.inner.call(request), seat),
            Err(_) => ResponseFuture::Full,
        }
    }
}

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>> + Unpin,
    R: From<Bytes>,
{
    type Output = Result<Response<R>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Seated(future, _) => Pin::new(future).poll(cx),
            Self::Full => {
                let refusal = Rejection::overloaded("too many requests are under way", 1);
                Poll::Ready(Ok(refusal.into_response(None)))
            }
        }
    }
}
