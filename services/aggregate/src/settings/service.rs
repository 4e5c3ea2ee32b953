//! What reaches a backend, without its type.

use std::fmt;
use std::future::{self, Future};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tower::ServiceExt;
use tower_service::Service;
use vmcp_core::{Body, BoxError};

/// The outgoing stack of one backend: credentials, timeout, breaker and connection.
///
/// It is always ready: each request goes to a clone of the stack, and waits until that is. A clone of
/// this is the same service and costs a reference count, and a request costs one allocation, however
/// many layers there are.
#[derive(Clone)]
pub struct BackendService(Arc<dyn Stack>);

/// What is put around the whole way to a backend: around the adapter of [`Transport::Sse`](super::Transport::Sse)
/// too, so that it sees operations and their answers. The default is nothing.
#[derive(Clone, Default)]
pub struct Around(Option<Arc<Wrap>>);

type Wrap = dyn Fn(BackendService) -> BackendService + Send + Sync;

/// A response on its way.
pub type Sending = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

trait Stack: Send + Sync {
    fn send(&self, request: Request<Full<Bytes>>) -> Sending;
}

impl BackendService {
    /// Forgets the type of `stack`.
    pub fn new<S>(stack: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<Body>, Error = BoxError>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
    {
        Self(Arc::new(stack))
    }

    /// Begins to send a request. The future needs nothing of this any more.
    pub fn send(&self, request: Request<Full<Bytes>>) -> Sending {
        self.0.send(request)
    }
}

impl Around {
    /// Has `wrap` put something around it.
    pub fn new(wrap: impl Fn(BackendService) -> BackendService + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(wrap)))
    }

    pub(crate) fn wrap(&self, service: BackendService) -> BackendService {
        match &self.0 {
            Some(wrap) => wrap(service),
            None => service,
        }
    }
}

impl<S> Stack for S
where
    S: Service<Request<Full<Bytes>>, Response = Response<Body>, Error = BoxError>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    fn send(&self, request: Request<Full<Bytes>>) -> Sending {
        let mut stack = self.clone();
        // Nearly always it is ready at once, and a request that need not wait need not be kept.
        match stack.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => Box::pin(stack.call(request)),
            Poll::Ready(Err(error)) => Box::pin(future::ready(Err(error))),
            Poll::Pending => Box::pin(stack.oneshot(request)),
        }
    }
}

impl Service<Request<Full<Bytes>>> for BackendService {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Sending;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Sending {
        self.send(request)
    }
}

impl fmt::Debug for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Around")
    }
}

impl fmt::Debug for BackendService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackendService")
    }
}
