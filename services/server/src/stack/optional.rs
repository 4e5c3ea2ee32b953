//! Optional layers. Stacks without them avoid the cost of type erasure.

use std::convert::Infallible;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;
use vmcp_aggregate::Gateway;
use vmcp_authz::Authorization;
use vmcp_cedar::Cedar;
use vmcp_core::{Body, BoxError};
use vmcp_decode::Decode;

use super::erased::{Answering, Erased};

/// Decoder with optional authorization.
#[derive(Clone, Debug)]
pub enum Core {
    /// Without authorization: every action is permitted.
    Open(Decode<Gateway>),
    /// With Cedar policies.
    Judged(Decode<Authorization<Gateway, Cedar>>),
}

/// Optional audit and authentication around `S`.
#[derive(Clone, Debug)]
pub enum Door<S> {
    /// Without audit and authentication.
    Open(S),
    /// With audit, authentication or both.
    Guarded(Erased),
}

impl<B> Service<Request<B>> for Core
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // All inner services are always ready: their limits reject instead of delaying.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answering {
        match self {
            Self::Open(service) => service.call(request),
            Self::Judged(service) => service.call(request),
        }
    }
}

impl<S, B> Service<Request<B>> for Door<S>
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible, Future = Answering>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        match self {
            Self::Open(service) => service.poll_ready(cx),
            Self::Guarded(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<B>) -> Answering {
        match self {
            Self::Open(service) => service.call(request),
            Self::Guarded(service) => service.call(request),
        }
    }
}
