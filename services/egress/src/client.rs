//! Client of one origin.

mod fast_path;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    HeaderName, Method, Request, Response, Uri, header,
    uri::{PathAndQuery, Scheme},
};
use http_body_util::Full;
use tower_service::Service;
use vmcp_core::BoxError;

use self::fast_path::FastPathFuture;
use crate::{
    Error, Incoming, Origin,
    exchange::{ExchangeError, ReceivedResponse, exchange},
    pool::{Pool, PoolGuard, PooledConnection},
};

/// Headers that follow from the body.
static FRAMING: [HeaderName; 2] = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// Future of [`Client`] as a [`Service`].
pub type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<Incoming>, BoxError>> + Send>>;

/// HTTP client of one origin. Clones share the connections.
///
/// The URI of a request is a path or an absolute URI of this origin. The client sets `Host` unless
/// the request has it, and always sets `Content-Length` and `Transfer-Encoding` from the body. It
/// adds no other header, such as `Accept-Encoding` or cookies, and uses no proxy from the
/// environment.
///
/// It retries a request once, on a new connection, only if no byte of it was written.
#[derive(Clone)]
pub struct Client {
    pool: Arc<Pool>,
    max_body: u64,
}

impl Client {
    pub(crate) fn new(pool: Arc<Pool>, max_body: u64) -> Self {
        Self { pool, max_body }
    }

    /// Returns the client that a guard belongs to.
    pub(crate) fn of(guard: &PoolGuard, max_body: u64) -> Self {
        Self { pool: guard.pool(), max_body }
    }

    /// Sets the maximum size of a response body in bytes.
    #[must_use]
    pub fn with_max_body(mut self, max_body: u64) -> Self {
        self.max_body = max_body;
        self
    }

    /// Returns the origin of this client.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.pool.origin
    }

    /// Sends `request` and returns the response once its head has arrived.
    ///
    /// Dropping the future closes its connection. The response has no timeout: the caller has to
    /// set one.
    ///
    /// # Errors
    ///
    /// Every variant of [`Error`] except [`Error::Redirected`]. [`Error::sent`] returns whether the
    /// backend may have processed the request.
    pub async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Error> {
        self.prepare(&mut request)?;
        let guard = self.pool.acquire().await?;
        let link = guard.connection().await?;
        match self.attempt(link, request).await {
            Ok(received) => Incoming::accept(received, guard, self.max_body),
            Err(ExchangeError { unsent: Some(request), .. }) => self.retry(request, guard).await,
            Err(ExchangeError { error, .. }) => Err(error),
        }
    }

    /// Retries a request of which nothing was written, on a new connection.
    pub(crate) async fn retry(
        &self,
        request: Request<Full<Bytes>>,
        guard: PoolGuard,
    ) -> Result<Response<Incoming>, Error> {
        guard.drop_shared();
        let link = guard.new_connection().await?;
        match self.attempt(link, request).await {
            Ok(received) => Incoming::accept(received, guard, self.max_body),
            Err(ExchangeError { error, .. }) => Err(error),
        }
    }

    async fn attempt(
        &self,
        link: PooledConnection,
        mut request: Request<Full<Bytes>>,
    ) -> Result<ReceivedResponse, ExchangeError> {
        match link {
            PooledConnection::Exclusive(connection) => {
                self.in_origin_form(&mut request);
                exchange(connection, request).await
            }
            PooledConnection::Shared(mut connection) => {
                self.in_absolute_form(&mut request);
                let response = connection.send(request).await?;
                Ok(ReceivedResponse { response, connection: None })
            }
        }
    }

    fn prepare(&self, request: &mut Request<Full<Bytes>>) -> Result<(), Error> {
        self.check(request)?;
        let headers = request.headers_mut();
        // Requests rarely have them, and scanning the names is faster than two lookups.
        if headers.keys().any(|name| FRAMING.contains(name)) {
            for name in &FRAMING {
                headers.remove(name);
            }
        }
        Ok(())
    }

    fn check(&self, request: &Request<Full<Bytes>>) -> Result<(), Error> {
        let uri = request.uri();
        let is_own_origin = match (uri.scheme(), uri.authority()) {
            (None, None) => request.method() != Method::CONNECT,
            (Some(scheme), Some(authority)) => {
                (*authority == self.pool.authority && *scheme == self.scheme())
                    || self.pool.origin.covers(uri)
            }
            _ => false,
        };
        if is_own_origin {
            Ok(())
        } else {
            Err(Error::WrongOrigin { origin: self.pool.origin.clone() })
        }
    }

    fn scheme(&self) -> Scheme {
        if self.pool.origin.is_secure() { Scheme::HTTPS } else { Scheme::HTTP }
    }

    fn in_origin_form(&self, request: &mut Request<Full<Bytes>>) {
        if request.uri().authority().is_some() {
            *request.uri_mut() = Uri::from(path_and_query(request.uri()));
        }
        request.headers_mut().entry(header::HOST).or_insert_with(|| self.pool.host.clone());
    }

    /// Sets the URI to absolute form: HTTP/2 takes `:scheme` and `:authority` from it (RFC 9113,
    /// 8.3.1).
    fn in_absolute_form(&self, request: &mut Request<Full<Bytes>>) {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme());
        parts.authority = Some(self.pool.authority.clone());
        parts.path_and_query = Some(path_and_query(request.uri()));
        // Cannot fail: `from_parts` only requires all three parts.
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
        request.headers_mut().remove(header::HOST);
    }
}

impl Service<Request<Full<Bytes>>> for Client {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Waiting for a permit is part of the call: a permit taken here might never be used.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Full<Bytes>>) -> ResponseFuture {
        // Most requests find an idle connection and need no further state.
        if self.prepare(&mut request).is_ok()
            && let Some((guard, connection)) = self.pool.acquire_idle()
        {
            self.in_origin_form(&mut request);
            return Box::pin(FastPathFuture::new(
                exchange(connection, request),
                guard,
                self.max_body,
            ));
        }
        let this = self.clone();
        Box::pin(async move { this.send(request).await.map_err(BoxError::from) })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("origin", &self.pool.origin)
            .field("max_body", &self.max_body)
            .finish_non_exhaustive()
    }
}

fn path_and_query(uri: &Uri) -> PathAndQuery {
    uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"))
}
