//! Telemetry of requests to backends: one span and one measurement each, and propagation of the trace.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use crate::metrics::{BackendMetrics, ErrorType};
use crate::trace_context::{HeaderPropagation, Propagator};
use http::{Method, Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::{Backend, BoxError, CredentialError, McpOperation, RequestContext, cause_ref};

use crate::ResponseBody;
use crate::recorder::Inner;
use crate::request_observer::RequestObserver;
use crate::trace_link::SpanPosition;

/// Classifies the cause of a failed request as one of a few fixed names.
pub type ErrorClassifier = fn(&(dyn std::error::Error + 'static)) -> Option<&'static str>;

/// Applies [`ClientTelemetry`] to requests to backends, and propagates the trace. Created by
/// [`Recorder::client_layer`](crate::Recorder::client_layer).
///
/// Reads [`Backend`], [`Caller`](vmcp_core::Caller), and [`McpOperation`] from the request extensions, otherwise the headers
/// `Mcp-Method` and `Mcp-Name`, and the [`RequestContext`] of the causing request from the operation or the extensions.
/// Writes `traceparent` and `tracestate`, and with [`MetaPropagation`](crate::trace_context::MetaPropagation) the same members
/// of the message's `_meta`. Errors of the inner service are passed on unchanged.
#[derive(Clone)]
pub struct ClientTelemetryLayer<P = HeaderPropagation> {
    recorder: Arc<Inner>,
    propagator: P,
    classify: ErrorClassifier,
}

/// Telemetry middleware for a client. See [`ClientTelemetryLayer`].
#[derive(Clone, Debug)]
pub struct ClientTelemetry<S, P = HeaderPropagation> {
    inner: S,
    layer: ClientTelemetryLayer<P>,
    /// Metrics of the backend of the first request, which is usually the only one.
    cached: Arc<OnceLock<Arc<BackendMetrics>>>,
}

pin_project! {
    /// Response future of [`ClientTelemetry`].
    #[derive(Debug)]
    pub struct ClientResponseFuture<F> {
        #[pin]
        inner: F,
        observer: Option<RequestObserver>,
        classify: ClassifierFn,
    }
}

/// An [`ErrorClassifier`] that implements `Debug`.
struct ClassifierFn(ErrorClassifier);

impl ClientTelemetryLayer {
    pub(crate) fn new(recorder: Arc<Inner>) -> Self {
        let classify: ErrorClassifier =
            |error| cause_ref::<CredentialError>(error).map(|_| "credentials");
        Self { recorder, propagator: HeaderPropagation, classify }
    }
}

impl<P> ClientTelemetryLayer<P> {
    /// Sets the propagator.
    #[must_use]
    pub fn propagator<Q>(self, propagator: Q) -> ClientTelemetryLayer<Q> {
        let Self { recorder, propagator: _, classify } = self;
        ClientTelemetryLayer { recorder, propagator, classify }
    }

    /// Sets the classifier whose names become values of `error.type`. Errors without a name are `broken`.
    #[must_use]
    pub fn classify(mut self, classify: ErrorClassifier) -> Self {
        self.classify = classify;
        self
    }
}

impl<P> fmt::Debug for ClientTelemetryLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTelemetryLayer").finish_non_exhaustive()
    }
}

impl fmt::Debug for ClassifierFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Words")
    }
}

impl<S, P: Clone> Layer<S> for ClientTelemetryLayer<P> {
    type Service = ClientTelemetry<S, P>;

    fn layer(&self, inner: S) -> ClientTelemetry<S, P> {
        ClientTelemetry { inner, layer: self.clone(), cached: Arc::default() }
    }
}

impl<S, P> ClientTelemetry<S, P> {
    fn metrics(&self, backend: Option<&Backend>) -> Arc<BackendMetrics> {
        let Some(backend) = backend else {
            return self.layer.recorder.client.backend(&Backend::new(""));
        };
        if let Some(cached) = self.cached.get()
            && cached.backend() == backend
        {
            return Arc::clone(cached);
        }
        let metrics = self.layer.recorder.client.backend(backend);
        _ = self.cached.set(Arc::clone(&metrics));
        metrics
    }
}

impl<S, B, R, P> Service<Request<B>> for ClientTelemetry<S, P>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: http_body::Body,
    P: Propagator<B>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = BoxError;
    type Future = ClientResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let ClientTelemetryLayer { recorder, propagator, classify } = &self.layer;
        let extensions = request.extensions();
        let (operation, request_context) =
            (extensions.get::<McpOperation>(), extensions.get::<RequestContext>());
        let position =
            SpanPosition::for_client_request(recorder.spans.as_deref(), operation, request_context);
        if let Some(context) = position.as_ref().and_then(|position| position.context.as_ref()) {
            context.inject(request.headers_mut());
        }
        let is_observing = recorder.has_meter || recorder.spans.is_some();
        if recorder.spans.is_some()
            && request.method() == Method::POST
            && let Some(context) = position.as_ref().and_then(SpanPosition::propagated_context)
        {
            request = request.map(|body| propagator.inject(body, context));
        }
        let observer = is_observing.then(|| {
            let metrics = self.metrics(request.extensions().get());
            RequestObserver::client(recorder, metrics, &request, position)
        });
        ClientResponseFuture {
            inner: self.inner.call(request),
            observer,
            classify: ClassifierFn(*classify),
        }
    }
}

impl<F, R, E> Future for ClientResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<BoxError>,
    R: http_body::Body,
{
    type Output = Result<Response<ResponseBody<R>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let result = ready!(this.inner.poll(cx));
        let mut observer = this.observer.take();
        Poll::Ready(match result {
            Ok(response) => {
                if let Some(observer) = &mut observer {
                    observer.on_response(&response);
                }
                Ok(response.map(|body| ResponseBody::new(body, observer)))
            }
            Err(error) => {
                let error = error.into();
                if let Some(observer) = &mut observer {
                    let word = (this.classify.0)(error.as_ref());
                    observer.end(word.map_or(ErrorType::BROKEN, ErrorType::Name));
                }
                Err(error)
            }
        })
    }
}

#[cfg(test)]
mod tests;
