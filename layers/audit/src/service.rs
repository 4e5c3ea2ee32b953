//! The middleware.

use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;

use crate::pending_event::PendingEvent;
use crate::{Auditor, ResponseBody, ResponseFuture};

/// Audit middleware. See the [crate docs](crate) for an example.
///
/// Requests and responses pass unchanged. Each request allocates one record.
#[derive(Clone, Debug)]
pub struct Audit<S> {
    inner: S,
    auditor: Auditor,
}

impl<S> Audit<S> {
    pub(crate) fn new(inner: S, auditor: Auditor) -> Self {
        Self { inner, auditor }
    }

    /// Returns a reference to the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Consumes `self`, returning the inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R> Service<Request<B>> for Audit<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: http_body::Body<Data = Bytes>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let pending = PendingEvent::begin(&self.auditor, &mut request);
        // For services that record events of their own, such as those of composite tools.
        request.extensions_mut().insert(self.auditor.clone());
        ResponseFuture::new(self.inner.call(request), pending)
    }
}

#[cfg(test)]
mod tests;
