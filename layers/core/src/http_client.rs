//! HTTP client that is passed to crates that send requests: connections, trust and address rules belong to its owner.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;

use crate::{Body, BoxError};

/// Any HTTP client, whatever its type: every tower service from requests with a [`Body`] to responses turns into one,
/// so what takes `impl Into<HttpClient>` takes the service itself.
///
/// Clones share it. Each request is sent by a clone of the service that was made ready for it; callers bound the time and
/// the bytes that they read.
#[derive(Clone)]
pub struct HttpClient(Arc<dyn Sends>);

/// Future of a request: the head of the response with a body that is still being received, or the error.
pub type HttpFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

trait Sends: Send + Sync {
    fn send(&self, request: Request<Body>) -> HttpFuture;
}

/// Services need not be shareable; this is locked for as long as cloning takes.
struct Locked<C>(Mutex<C>);

// === impl HttpClient ===

impl HttpClient {
    /// Sends a request with an absolute URI, at once when the future is polled.
    ///
    /// # Errors
    /// Whatever the service fails with.
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
        Self(Arc::new(Locked(Mutex::new(service))))
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

// === impl Locked ===

impl<C, R> Sends for Locked<C>
where
    C: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    fn send(&self, request: Request<Body>) -> HttpFuture {
        let mut service = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
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

    /// Ready at the second time of asking, and then for one request. Not `Sync`.
    #[derive(Clone, Default)]
    struct Slow {
        asked: Cell<u32>,
    }

    impl Service<Request<Body>> for Slow {
        type Response = Response<Full<Bytes>>;
        type Error = &'static str;
        type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

        fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            self.asked.set(self.asked.get() + 1);
            if self.asked.get() < 2 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            std::future::ready(match (self.asked.get(), request.uri().path()) {
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
    async fn each_request_has_a_service_of_its_own_that_is_ready() {
        fn is_shareable<T: Send + Sync>(_: &T) {}
        let client = HttpClient::from(Slow::default());
        is_shareable(&client);
        for path in ["/one", "/two"] {
            let answer = client.send(get(path)).await.unwrap();
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), path);
        }
    }

    #[tokio::test]
    async fn the_error_is_the_services_own() {
        let client: HttpClient = Slow::default().into();
        assert_eq!(client.send(get("/refused")).await.unwrap_err().to_string(), "refused");
    }
}
