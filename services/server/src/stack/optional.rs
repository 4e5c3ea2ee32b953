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

use super::erased::{BoxMcpService, BoxResponseFuture};

/// Decoder with optional authorization.
#[derive(Clone, Debug)]
pub enum PolicyStack {
    /// Without authorization: every action is permitted.
    Unrestricted(Decode<Gateway>),
    /// With Cedar policies.
    Cedar(Decode<Authorization<Gateway, Cedar>>),
}

/// Optional audit and authentication around `S`.
#[derive(Clone, Debug)]
pub enum OptionalAuth<S> {
    /// Without audit and authentication.
    Disabled(S),
    /// With audit, authentication or both.
    Enabled(BoxMcpService),
}

impl<B> Service<Request<B>> for PolicyStack
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // All inner services are always ready: their limits reject instead of delaying.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> BoxResponseFuture {
        match self {
            Self::Unrestricted(service) => service.call(request),
            Self::Cedar(service) => service.call(request),
        }
    }
}

impl<S, B> Service<Request<B>> for OptionalAuth<S>
where
    S: Service<
            Request<B>,
            Response = Response<Body>,
            Error = Infallible,
            Future = BoxResponseFuture,
        >,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxResponseFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        match self {
            Self::Disabled(service) => service.poll_ready(cx),
            Self::Enabled(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<B>) -> BoxResponseFuture {
        match self {
            Self::Disabled(service) => service.call(request),
            Self::Enabled(service) => service.call(request),
        }
    }
}
