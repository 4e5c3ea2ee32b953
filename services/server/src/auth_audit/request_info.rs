//! Request fields of the authorization server's audit events, in the extensions of the request.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::Request;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;
use vmcp_audit::{BoundedText, EventSource};
use vmcp_auth_server::EventContext;

use super::AuthAuditRecorder;

/// Request fields of an audit event.
#[derive(Clone, Debug)]
pub(super) struct RequestInfo {
    pub(super) source: EventSource,
    pub(super) endpoint: BoundedText,
    pub(super) method: BoundedText,
    pub(super) began: Instant,
}

/// Layer that inserts the request fields of audit events into the request's extensions, if an auditor is set.
#[derive(Clone, Debug)]
pub(crate) struct RequestInfoLayer(pub(crate) Arc<AuthAuditRecorder>);

/// Middleware of [`RequestInfoLayer`].
#[derive(Clone, Debug)]
pub(crate) struct RecordRequestInfo<S> {
    inner: S,
    auth_audit: Arc<AuthAuditRecorder>,
}

impl<S> Layer<S> for RequestInfoLayer {
    type Service = RecordRequestInfo<S>;

    fn layer(&self, inner: S) -> RecordRequestInfo<S> {
        RecordRequestInfo { inner, auth_audit: Arc::clone(&self.0) }
    }
}

impl<S, B> Service<Request<B>> for RecordRequestInfo<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        if let Some(auditor) = &*self.auth_audit.0.load() {
            let info = RequestInfo {
                source: auditor.source(&request),
                endpoint: request.uri().path().into(),
                method: request.method().as_str().into(),
                began: Instant::now(),
            };
            request.extensions_mut().insert(EventContext::new(info));
        }
        self.inner.call(request)
    }
}
