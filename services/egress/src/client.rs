//! One origin's client: takes a request, hands back a response.

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

use crate::{
    Error, Incoming, Origin,
    exchange::{ExchangeError, ReceivedResponse, exchange},
    fast_path::FastPathFuture,
    pool::{Pool, PoolGuard, PooledConnection},
};

/// What follows from the body alone.
static FRAMING: [HeaderName; 2] = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING];

/// What [`Client`] answers as a [`Service`].
pub type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<Incoming>, BoxError>> + Send>>;

/// Sends requests to one origin. A clone shares its connections.
///
/// The request's URI is a path or an absolute URI of this origin. `Host` is set unless the request
/// has one; `Content-Length` and `Transfer-Encoding` always follow from the body. Nothing else is
/// added: no `Accept-Encoding`, no cookies, and no proxy of the environment is used.
///
/// A request is sent a second time, on a new connection, only if not one byte of it was written.
#[derive(Clone)]
pub struct Client {
    pool: Arc<Pool>,
    max_body: u64,
}

impl Client {
    pub(crate) fn new(pool: Arc<Pool>, max_body: u64) -> Self {
        Self { pool, max_body }
    }

    /// The client that a lease is of.
    pub(crate) fn of(guard: &PoolGuard, max_body: u64) -> Self {
        Self { pool: guard.pool(), max_body }
    }

    /// The same client with another cap on the bytes of a response's body.
    #[must_use]
    pub fn with_max_body(mut self, max_body: u64) -> Self {
        self.max_body = max_body;
        self
    }

    /// Where requests go.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.pool.origin
    }

    /// Sends `request`; the answer is there when its head has arrived.
    ///
    /// Dropping the future closes the connection it used. There is no deadline on the answer: that
    /// is the caller's to set.
    ///
    /// # Errors
    ///
    /// Every variant of [`Error`] except [`Error::Redirected`]; [`Error::sent`] tells whether the
    /// backend may have acted on the request.
    pub async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Error> {
        self.prepare(&mut request)?;
        let guard = self.pool.acquire().await?;
        let link = guard.connection().await?;
        match self.attempt(link, request).await {
            Ok(received) => received.accept(guard, self.max_body),
            Err(ExchangeError { unsent: Some(request), .. }) => self.retry(request, guard).await,
            Err(ExchangeError { error, .. }) => Err(error),
        }
    }

    /// Sends a request once more, of which nothing was written, on a new connection.
    pub(crate) async fn retry(
        &self,
        request: Request<Full<Bytes>>,
        guard: PoolGuard,
    ) -> Result<Response<Incoming>, Error> {
        guard.drop_shared();
        let link = guard.new_connection().await?;
        match self.attempt(link, request).await {
            Ok(received) => received.accept(guard, self.max_body),
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
        // Requests are rarely made with them, and a glance at the names is less than two look-ups.
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

    /// HTTP/2 takes `:scheme` and `:authority` from the URI (RFC 9113, 8.3.1).
    fn in_absolute_form(&self, request: &mut Request<Full<Bytes>>) {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme());
        parts.authority = Some(self.pool.authority.clone());
        parts.path_and_query = Some(path_and_query(request.uri()));
        // All three parts are there, which is all that is asked of them.
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
        // Waiting for a turn is part of the call: a turn that was taken here could be kept for
        // ever.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Full<Bytes>>) -> ResponseFuture {
        // Most requests find an idle connection, and then nothing of them has to be kept.
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
