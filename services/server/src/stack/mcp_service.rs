//! Boxed service of an incoming stack, because the configuration decides which layers it has.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use tower::ServiceExt;
use tower_service::Service;
use vmcp_core::Body;

/// Boxed response future.
pub type BoxResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// Boxed incoming stack for requests with bodies of type `B`. Always ready: each request goes to a clone of the stack.
///
/// Unlike `tower::util::BoxCloneSyncService`, a clone costs a reference count instead of an allocation and a copy of the
/// stack. A request costs one allocation. Clones share the stack, which lives until the last request on it is done.
pub struct McpService<B = Body>(Arc<dyn DynService<B>>);

trait DynService<B>: Send + Sync {
    fn call_boxed(&self, request: Request<B>) -> BoxResponseFuture;
}

impl<B> McpService<B> {
    /// Boxes `stack`.
    pub(super) fn new<S>(stack: S) -> Self
    where
        S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        B: Send + 'static,
    {
        Self(Arc::new(stack))
    }
}

impl<S, B> DynService<B> for S
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    fn call_boxed(&self, request: Request<B>) -> BoxResponseFuture {
        let mut stack = self.clone();
        // The layers reject what they have no room for, so that the stack is usually ready and the common case stores no
        // copy of the request.
        match stack.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => Box::pin(stack.call(request)),
            Poll::Ready(Err(never)) => match never {},
            Poll::Pending => Box::pin(stack.oneshot(request)),
        }
    }
}

impl<B> Service<Request<B>> for McpService<B> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> BoxResponseFuture {
        self.0.call_boxed(request)
    }
}

impl<B> Clone for McpService<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> fmt::Debug for McpService<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("McpService")
    }
}
