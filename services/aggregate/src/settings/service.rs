//! Type-erased service for requests to a backend.

use std::fmt;
use std::future::{self, Future};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use pin_project_lite::pin_project;
use tower::ServiceExt;
use tower_service::Service;
use vmcp_core::{Body, BoxError};

/// Outgoing stack of one backend: credentials, timeout, circuit breaker and connection.
///
/// It is always ready: each request is sent to a clone of the stack after that clone is ready. Cloning increments a reference
/// count, and a request costs one allocation, independent of the number of layers.
#[derive(Clone)]
pub struct BackendService(Arc<dyn DynStack>);

/// Wrapper around the whole path to a backend, including the adapter of [`Transport::Sse`](super::Transport::Sse), so it
/// observes operations and their responses. The default wraps nothing.
#[derive(Clone, Default)]
pub struct ServiceWrapper(Option<Arc<WrapperFn>>);

type WrapperFn = dyn Fn(BackendService) -> BackendService + Send + Sync;

/// Future of a response.
pub type BackendFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

trait DynStack: Send + Sync {
    fn send(&self, request: Request<Full<Bytes>>) -> BackendFuture;
}

/// Stack whose responses have bodies of the type `B`.
struct ErasedStack<S, B> {
    stack: S,
    body: PhantomData<fn() -> B>,
}

pin_project! {
    /// Future that erases the types of a response's body and error in one step, because each move of a response copies its
    /// head.
    struct ErasedResponseFuture<F> {
        #[pin]
        inner: F,
    }
}

impl BackendService {
    /// Erases the type of `stack`, of its error and of its responses' bodies.
    pub fn new<S, B>(stack: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Arc::new(ErasedStack { stack, body: PhantomData }))
    }

    /// Starts a request. The future does not borrow from `self`.
    pub fn send(&self, request: Request<Full<Bytes>>) -> BackendFuture {
        self.0.send(request)
    }
}

impl ServiceWrapper {
    /// Creates the wrapper from a closure.
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

impl<S, B> DynStack for ErasedStack<S, B>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn send(&self, request: Request<Full<Bytes>>) -> BackendFuture {
        let mut stack = self.stack.clone();
        // Fast path: a stack that is ready at once can be called without storing the request.
        match stack.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => Box::pin(ErasedResponseFuture { inner: stack.call(request) }),
            Poll::Ready(Err(error)) => Box::pin(future::ready(Err(error.into()))),
            Poll::Pending => Box::pin(ErasedResponseFuture { inner: stack.oneshot(request) }),
        }
    }
}

impl<F, B, E> Future for ErasedResponseFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    E: Into<BoxError>,
{
    type Output = Result<Response<Body>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().inner.poll(cx)) {
            Ok(response) => Ok(response.map(Body::wrap)),
            Err(error) => Err(error.into()),
        })
    }
}

impl Service<Request<Full<Bytes>>> for BackendService {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BackendFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> BackendFuture {
        self.send(request)
    }
}

impl fmt::Debug for ServiceWrapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Around")
    }
}

impl fmt::Debug for BackendService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackendService")
    }
}
