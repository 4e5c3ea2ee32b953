//! Type-erased services, because the configuration decides which layers a stack has.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::ServiceExt;
use tower_service::Service;
use vmcp_core::{Body, BoxError};

/// Boxed response future.
pub type BoxResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// Always ready: each request goes to a clone of the service behind. A clone of this costs a reference
/// count, and a request one allocation.
#[derive(Clone)]
pub struct BoxMcpService(Arc<dyn DynService>);

trait DynService: Send + Sync {
    fn call_boxed(&self, request: Request<Body>) -> BoxResponseFuture;
}

/// A service, and what becomes of its answers' bodies.
struct MappedService<S, R> {
    service: S,
    body: fn(R) -> Body,
}

pin_project! {
    /// Forgets the type of an answer's body. One step: what moves an answer on moves all of its head.
    struct MapBodyFuture<F, R> {
        #[pin]
        inner: F,
        body: fn(R) -> Body,
    }
}

impl BoxMcpService {
    /// Erases the type of `service` and of its response bodies.
    pub(super) fn new<S, R>(service: S, body: fn(R) -> Body) -> Self
    where
        S: Service<Request<Body>, Response = Response<R>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        R: 'static,
    {
        Self(Arc::new(MappedService { service, body }))
    }
}

impl<S, R> DynService for MappedService<S, R>
where
    S: Service<Request<Body>, Response = Response<R>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
    R: 'static,
{
    fn call_boxed(&self, request: Request<Body>) -> BoxResponseFuture {
        let (mut service, body) = (self.service.clone(), self.body);
        // Inner services are usually ready, so that the common case stores no copy of the request.
        match service.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => Box::pin(MapBodyFuture { inner: service.call(request), body }),
            Poll::Ready(Err(never)) => match never {},
            Poll::Pending => Box::pin(MapBodyFuture { inner: service.oneshot(request), body }),
        }
    }
}

impl<F, R> Future for MapBodyFuture<F, R>
where
    F: Future<Output = Result<Response<R>, Infallible>>,
{
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Ok(response) = ready!(this.inner.poll(cx));
        Poll::Ready(Ok(response.map(*this.body)))
    }
}

impl<B> Service<Request<B>> for BoxMcpService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> BoxResponseFuture {
        self.0.call_boxed(request.map(Body::wrap))
    }
}

impl fmt::Debug for BoxMcpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Erased")
    }
}
