//! Task-local record of the request that the authorization server handles, for its audit events.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::Request;
use tokio::task::futures::TaskLocalFuture;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;
use vmcp_audit::{BoundedText, EventSource};

use super::AuthAuditRecorder;

tokio::task_local! {
    /// The request that this task answers.
    pub(super) static REQUEST_INFO: RequestInfo;
}

/// Request fields of an audit event.
#[derive(Clone, Debug)]
pub(crate) struct RequestInfo {
    pub(super) source: EventSource,
    pub(super) endpoint: BoundedText,
    pub(super) method: BoundedText,
    pub(super) began: Instant,
}

/// Layer that stores the request fields of audit events in a task-local variable, if an auditor is set.
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
    type Future = Either<S::Future, TaskLocalFuture<RequestInfo, S::Future>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Some(auditor) = &*self.auth_audit.0.load() else {
            return Either::Left(self.inner.call(request));
        };
        let info = RequestInfo {
            source: auditor.source(&request),
            endpoint: request.uri().path().into(),
            method: request.method().as_str().into(),
            began: Instant::now(),
        };
        Either::Right(REQUEST_INFO.scope(info, self.inner.call(request)))
    }
}
