//! Middleware that limits concurrent requests.
//!
//! tower's `ConcurrencyLimit` waits for a permit in `poll_ready`, before the request is known. This layer decides by the
//! request, which allows shares by client address, and responds at once, as clients expect from an overloaded server.

use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Extensions, Request, Response};
use pin_project_lite::pin_project;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::{Rejection, network};

/// Divisor of the limit that yields the share of one address.
const ADDRESS_DIVISOR: usize = 4;

/// Minimum share of one address.
const MIN_ADDRESS_PERMITS: usize = 16;

/// Layer that applies [`ConcurrencyLimit`].
#[derive(Clone, Debug)]
pub struct ConcurrencyLimitLayer(Arc<Permits>);

/// Permits for requests.
#[derive(Debug)]
struct Permits {
    all: Arc<Semaphore>,
    limit: usize,
    /// Concurrent requests by address; `None` disables shares.
    by_address: Option<Mutex<HashMap<IpAddr, usize>>>,
}

/// Middleware that responds with 503 and `Retry-After` while too many requests are under way.
///
/// A request counts until its response begins: streams are bounded by the limit of connections.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit<S> {
    inner: S,
    permits: Arc<Permits>,
}

/// Permit of a request, released on drop.
#[derive(Debug)]
struct RequestPermit {
    _permit: OwnedSemaphorePermit,
    _address: Option<AddressPermit>,
}

/// Counted request of an address.
#[derive(Debug)]
struct AddressPermit {
    permits: Arc<Permits>,
    address: IpAddr,
}

pin_project! {
    /// Response future of [`ConcurrencyLimit`].
    #[derive(Debug)]
    pub struct ConcurrencyLimitFuture<F> {
        #[pin]
        kind: Kind<F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = KindProjection]
    enum Kind<F> {
        Admitted {
            #[pin]
            future: F,
            permit: RequestPermit,
        },
        Overloaded,
    }
}

impl ConcurrencyLimitLayer {
    /// Creates a layer for at most `requests` concurrent requests.
    #[must_use]
    pub fn new(requests: usize) -> Self {
        let limit = requests.min(Semaphore::MAX_PERMITS);
        let all = Arc::new(Semaphore::new(limit));
        Self(Arc::new(Permits { all, limit, by_address: None }))
    }

    /// Limits each address ([`SocketAddr`] in a request's extensions) to a share: while half of all permits are taken,
    /// an address that has a quarter of all gets no more.
    #[must_use]
    pub fn by_address(self) -> Self {
        let Permits { all, limit, by_address: _ } = &*self.0;
        let by_address = Some(Mutex::default());
        Self(Arc::new(Permits { all: Arc::clone(all), limit: *limit, by_address }))
    }
}

impl Permits {
    /// Acquires a permit for a request.
    fn try_acquire(self: &Arc<Self>, extensions: &Extensions) -> Option<RequestPermit> {
        let permit = Arc::clone(&self.all).try_acquire_owned().ok()?;
        let address_permit = match &self.by_address {
            Some(open) => match extensions.get::<SocketAddr>() {
                Some(address) => Some(self.try_acquire_for(open, network(address.ip()))?),
                None => None,
            },
            None => None,
        };
        Some(RequestPermit { _permit: permit, _address: address_permit })
    }

    fn try_acquire_for(
        self: &Arc<Self>,
        open: &Mutex<HashMap<IpAddr, usize>>,
        address: IpAddr,
    ) -> Option<AddressPermit> {
        let mut open = vmcp_core::lock(open);
        let count = open.entry(address).or_default();
        // An entry has at least one request: the share is not 0.
        let is_half_taken = self.all.available_permits() < self.limit / 2;
        if is_half_taken && *count >= (self.limit / ADDRESS_DIVISOR).max(MIN_ADDRESS_PERMITS) {
            return None;
        }
        *count += 1;
        Some(AddressPermit { permits: Arc::clone(self), address })
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let Some(open) = &self.permits.by_address else { return };
        let mut open = vmcp_core::lock(open);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

impl<S> Layer<S> for ConcurrencyLimitLayer {
    type Service = ConcurrencyLimit<S>;

    fn layer(&self, inner: S) -> ConcurrencyLimit<S> {
        ConcurrencyLimit { inner, permits: Arc::clone(&self.0) }
    }
}

impl<S> ConcurrencyLimit<S> {
    /// Returns a reference to the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Consumes `self`, returning the inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R> Service<Request<B>> for ConcurrencyLimit<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ConcurrencyLimitFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let kind = match self.permits.try_acquire(request.extensions()) {
            Some(permit) => Kind::Admitted { future: self.inner.call(request), permit },
            None => Kind::Overloaded,
        };
        ConcurrencyLimitFuture { kind }
    }
}

impl<F, R, E> Future for ConcurrencyLimitFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: From<Bytes>,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().kind.project() {
            KindProjection::Admitted { future, permit: _ } => future.poll(cx),
            KindProjection::Overloaded => {
                let rejection = Rejection::overloaded("too many requests are under way", 1);
                Poll::Ready(Ok(rejection.into_response(None)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use vmcp_core::Body;

    use super::*;

    fn permit(layer: &ConcurrencyLimitLayer, address: &str) -> Option<RequestPermit> {
        let mut extensions = Extensions::new();
        extensions.insert(SocketAddr::new(address.parse().unwrap(), 1));
        layer.0.try_acquire(&extensions)
    }

    #[test]
    fn limits_address_once_half_of_permits_are_used() {
        let layer = ConcurrencyLimitLayer::new(80).by_address();
        let flood: Vec<_> = (0..80).map_while(|_| permit(&layer, "10.0.0.1")).collect();
        assert_eq!(flood.len(), 40);
        let others: Vec<_> = (0..80).map_while(|_| permit(&layer, "fd00::1")).collect();
        assert_eq!(others.len(), 20);
        let third = permit(&layer, "10.0.0.2");
        assert!(third.is_some(), "two addresses leave places to others");
        drop((flood, others, third));
        assert!(layer.0.by_address.as_ref().unwrap().lock().unwrap().is_empty());
        assert_eq!(layer.0.all.available_permits(), 80);
    }

    #[test]
    fn has_no_address_limit_by_default() {
        let layer = ConcurrencyLimitLayer::new(80);
        let all: Vec<_> = (0..100).map_while(|_| permit(&layer, "10.0.0.1")).collect();
        assert_eq!(all.len(), 80);
    }
    #[tokio::test]
    async fn counts_request_until_its_response_begins() {
        let (mut service, mut handle) =
            tower_test::mock::spawn_layer::<Request<()>, Response<Body>, _>(
                ConcurrencyLimitLayer::new(1),
            );
        assert!(service.poll_ready().is_ready());
        let admitted = service.call(Request::new(()));
        let (_, respond) = handle.next_request().await.unwrap();
        assert!(service.poll_ready().is_ready());
        let response = service.call(Request::new(())).await.unwrap();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
        respond.send_response(Response::new(Body::empty()));
        let stream = admitted.await.unwrap();
        assert!(service.poll_ready().is_ready());
        let next = service.call(Request::new(()));
        let (_, respond) = handle.next_request().await.unwrap();
        respond.send_response(Response::new(Body::empty()));
        assert_eq!(
            (stream.status(), next.await.unwrap().status()),
            (http::StatusCode::OK, http::StatusCode::OK)
        );
    }
}
