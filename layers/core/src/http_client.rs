//! HTTP client that is passed to crates that send requests: connections, trust and address rules belong to its owner.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;

use crate::{Body, BoxError};

/// HTTP client of any type. Every tower service from requests with a [`Body`] to responses converts into one, so functions
/// that take `impl Into<HttpClient>` take the service itself.
///
/// Clones share the service. Each request is sent by a ready clone of it. Callers bound the time and the bytes that they
/// read.
#[derive(Clone)]
pub struct HttpClient(Arc<dyn DynClient>);

/// Future of a response whose body is still being received.
pub type HttpFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

/// Object-safe form of the service.
trait DynClient: Send + Sync {
    fn send(&self, request: Request<Body>) -> HttpFuture;
}

/// Service that is locked while it is cloned, as services need not be `Sync`.
struct CloneLocked<C>(Mutex<C>);

// === impl HttpClient ===

impl HttpClient {
    /// Sends a request with an absolute URI when the future is polled first.
    ///
    /// # Errors
    /// The error of the service.
    pub fn send(&self, request: Request<Body>) -> HttpFuture {
        self.0.send(request)
    }
}

impl<C, R> From<C> for HttpClient
where
    C: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    fn from(service: C) -> Self {
        Self(Arc::new(CloneLocked(Mutex::new(service))))
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

// === impl CloneLocked ===

impl<C, R> DynClient for CloneLocked<C>
where
    C: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    fn send(&self, request: Request<Body>) -> HttpFuture {
        let mut service = crate::lock(&self.0).clone();
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
            let response = service.call(request).await.map_err(Into::into)?;
            Ok(response.map(Body::wrap))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::task::{Context, Poll};

    use http_body_util::{BodyExt, Full};

    use super::*;

    /// Service that is ready at the second poll, and then for one request. Not `Sync`.
    #[derive(Clone, Default)]
    struct SlowService {
        polls: Cell<u32>,
    }

    impl Service<Request<Body>> for SlowService {
        type Response = Response<Full<Bytes>>;
        type Error = &'static str;
        type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

        fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            self.polls.set(self.polls.get() + 1);
            if self.polls.get() < 2 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            std::future::ready(match (self.polls.get(), request.uri().path()) {
                (2, "/refused") => Err("refused"),
                (2, path) => Ok(Response::new(Full::from(path.to_owned()))),
                _ => Err("not ready"),
            })
        }
    }

    fn get(path: &'static str) -> Request<Body> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = http::Uri::from_static(path);
        request
    }

    #[tokio::test]
    async fn each_request_has_a_ready_service() {
        fn is_shareable<T: Send + Sync>(_: &T) {}
        let client = HttpClient::from(SlowService::default());
        is_shareable(&client);
        for path in ["/one", "/two"] {
            let response = client.send(get(path)).await.unwrap();
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), path);
        }
    }

    #[tokio::test]
    async fn returns_the_error_of_the_service() {
        let client: HttpClient = SlowService::default().into();
        assert_eq!(client.send(get("/refused")).await.unwrap_err().to_string(), "refused");
    }
}
