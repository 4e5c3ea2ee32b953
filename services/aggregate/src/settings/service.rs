//! What reaches a backend, without its type.

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

/// A stack whose answers have bodies of the type `B`.
struct Typed<S, B> {
    stack: S,
    body: PhantomData<fn() -> B>,
}

pin_project! {
    /// Forgets the types of an answer's body and error. One step: what moves an answer on moves all of its head.
    struct Answer<F> {
        #[pin]
        inner: F,
    }
}

impl BackendService {
    /// Forgets the type of `stack`, and those of its answers' bodies and errors.
    pub fn new<S, B>(stack: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Arc::new(Typed { stack, body: PhantomData }))
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

impl<S, B> Stack for Typed<S, B>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn send(&self, request: Request<Full<Bytes>>) -> Sending {
        let mut stack = self.stack.clone();
        // Nearly always it is ready at once, and a request that need not wait need not be kept.
        match stack.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => Box::pin(Answer { inner: stack.call(request) }),
            Poll::Ready(Err(error)) => Box::pin(future::ready(Err(error.into()))),
            Poll::Pending => Box::pin(Answer { inner: stack.oneshot(request) }),
        }
    }
}

impl<F, B, E> Future for Answer<F>
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
