//! Middleware that limits concurrent requests.

use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Extensions, Request, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::{Rejection, network};

/// Divisor of the limit that yields the share of one address.
const PART: usize = 4;

/// Minimum share of one address.
const MIN_SHARE: usize = 16;

/// Layer that applies [`Crowd`].
#[derive(Clone, Debug)]
pub struct CrowdLayer(Arc<Seats>);

/// Permits for requests.
#[derive(Debug)]
struct Seats {
    all: Arc<Semaphore>,
    limit: usize,
    /// Concurrent requests by address; `None` disables shares.
    by_address: Option<Mutex<HashMap<IpAddr, usize>>>,
}

/// Middleware that responds with 503 and `Retry-After` while too many requests are under way.
///
/// A request counts until its response begins: streams are bounded by the limit of connections.
#[derive(Clone, Debug)]
pub struct Crowd<S> {
    inner: S,
    seats: Arc<Seats>,
}

/// Permit of a request, released on drop.
#[derive(Debug)]
pub struct Seat {
    _permit: OwnedSemaphorePermit,
    _share: Option<Share>,
}

/// Counted request of an address.
#[derive(Debug)]
struct Share {
    seats: Arc<Seats>,
    address: IpAddr,
}

/// Response future of [`Crowd`].
#[derive(Debug)]
pub enum ResponseFuture<F> {
    /// Waits for the inner service.
    Seated(F, Seat),
    /// The limit is reached.
    Full,
}

impl CrowdLayer {
    /// Creates a layer for at most `requests` concurrent requests.
    #[must_use]
    pub fn new(requests: usize) -> Self {
        let limit = requests.min(Semaphore::MAX_PERMITS);
        let all = Arc::new(Semaphore::new(limit));
        Self(Arc::new(Seats { all, limit, by_address: None }))
    }

    /// Limits each address ([`SocketAddr`] in a request's extensions) to a share: while half of all permits are taken,
    /// an address that has a quarter of all gets no more.
    #[must_use]
    pub fn by_address(self) -> Self {
        let Seats { all, limit, by_address: _ } = &*self.0;
        let by_address = Some(Mutex::default());
        Self(Arc::new(Seats { all: Arc::clone(all), limit: *limit, by_address }))
    }
}

impl Seats {
    /// Acquires a permit for a request.
    fn take(self: &Arc<Self>, extensions: &Extensions) -> Option<Seat> {
        let permit = Arc::clone(&self.all).try_acquire_owned().ok()?;
        let share = match &self.by_address {
            Some(open) => match extensions.get::<SocketAddr>() {
                Some(address) => Some(self.share(open, network(address.ip()))?),
                None => None,
            },
            None => None,
        };
        Some(Seat { _permit: permit, _share: share })
    }

    fn share(
        self: &Arc<Self>,
        open: &Mutex<HashMap<IpAddr, usize>>,
        address: IpAddr,
    ) -> Option<Share> {
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        // An entry has at least one request: the share is not 0.
        let is_half_taken = self.all.available_permits() < self.limit / 2;
        if is_half_taken && *count >= (self.limit / PART).max(MIN_SHARE) {
            return None;
        }
        *count += 1;
        Some(Share { seats: Arc::clone(self), address })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(open) = &self.seats.by_address else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

impl<S> Layer<S> for CrowdLayer {
    type Service = Crowd<S>;

    fn layer(&self, inner: S) -> Crowd<S> {
        Crowd { inner, seats: Arc::clone(&self.0) }
    }
}

impl<S, B, R> Service<Request<B>> for Crowd<S>
where
    S: Service<Request<B>, Response = Response<R>, Future: Unpin>,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.seats.take(request.extensions()) {
            Some(seat) => ResponseFuture::Seated(self.inner.call(request), seat),
            None => ResponseFuture::Full,
        }
    }
}

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>> + Unpin,
    R: From<Bytes>,
{
    type Output = Result<Response<R>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Seated(future, _) => Pin::new(future).poll(cx),
            Self::Full => {
                let refusal = Rejection::overloaded("too many requests are under way", 1);
                Poll::Ready(Ok(refusal.into_response(None)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(layer: &CrowdLayer, address: &str) -> Option<Seat> {
        let mut extensions = Extensions::new();
        extensions.insert(SocketAddr::new(address.parse().unwrap(), 1));
        layer.0.take(&extensions)
    }

    #[test]
    fn limits_address_once_half_of_permits_are_used() {
        let layer = CrowdLayer::new(80).by_address();
        let flood: Vec<_> = (0..80).map_while(|_| seat(&layer, "10.0.0.1")).collect();
        assert_eq!(flood.len(), 40);
        let others: Vec<_> = (0..80).map_while(|_| seat(&layer, "fd00::1")).collect();
        assert_eq!(others.len(), 20);
        let third = seat(&layer, "10.0.0.2");
        assert!(third.is_some(), "two addresses leave places to others");
        drop((flood, others, third));
        assert!(layer.0.by_address.as_ref().unwrap().lock().unwrap().is_empty());
        assert_eq!(layer.0.all.available_permits(), 80);
    }

    #[test]
    fn has_no_address_limit_by_default() {
        let layer = CrowdLayer::new(80);
        let all: Vec<_> = (0..100).map_while(|_| seat(&layer, "10.0.0.1")).collect();
        assert_eq!(all.len(), 80);
    }
}
