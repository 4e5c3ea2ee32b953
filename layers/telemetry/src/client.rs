//! Requests to backends: one span and one measurement each, and the trace that goes on with them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use http::{Method, Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::{Backend, BoxError, CredentialError, Operation, Trail, cause};
use vmcp_metrics::{BackendMetrics, ErrorType};
use vmcp_trace_context::{HeaderPropagation, Propagator};

use crate::ResponseBody;
use crate::recorder::Inner;
use crate::request_observer::RequestObserver;
use crate::trace_link::SpanPosition;

/// Names the cause of a failed request in one of a few fixed words.
pub type ErrorClassifier = fn(&(dyn std::error::Error + 'static)) -> Option<&'static str>;

/// Measures and records what backends are asked for, and passes the trace on to them.
/// [`Recorder::client_layer`](crate::Recorder::outgoing) makes it.
///
/// Reads, from the request's extensions: [`Backend`], [`Operation`] or else the headers `Mcp-Method` and
/// `Mcp-Name`, [`Caller`](vmcp_core::Caller), and the [`Trail`] of the request that it is made for, in the
/// operation or beside it.
/// Writes: `traceparent` and `tracestate`, and with [`MetaPropagation`](vmcp_trace_context::InMessage) the same
/// members of the message's `_meta`. Fails with what the service below fails with.
#[derive(Clone)]
pub struct ClientTelemetryLayer<P = HeaderPropagation> {
    recorder: Arc<Inner>,
    propagator: P,
    classify: ErrorClassifier,
}

/// Measures and records what `S` is asked for. See [`ClientTelemetryLayer`].
#[derive(Clone, Debug)]
pub struct ClientTelemetry<S, P = HeaderPropagation> {
    inner: S,
    layer: ClientTelemetryLayer<P>,
    /// Where requests to the backend are recorded that the first one went to: mostly all do.
    cached: Arc<OnceLock<Arc<BackendMetrics>>>,
}

pin_project! {
    /// Waits for the beginning of the response.
    #[derive(Debug)]
    pub struct ClientResponseFuture<F> {
        #[pin]
        inner: F,
        observer: Option<RequestObserver>,
        classify: ClassifierFn,
    }
}

/// A [`ErrorClassifier`] that can be printed.
struct ClassifierFn(ErrorClassifier);

impl ClientTelemetryLayer {
    pub(crate) fn new(recorder: Arc<Inner>) -> Self {
        let classify: ErrorClassifier =
            |error| cause::<CredentialError>(error).map(|_| "credentials");
        Self { recorder, propagator: HeaderPropagation, classify }
    }
}

impl<P> ClientTelemetryLayer<P> {
    /// Another way to pass the trace on.
    #[must_use]
    pub fn propagator<Q>(self, propagator: Q) -> ClientTelemetryLayer<Q> {
        let Self { recorder, propagator: _, classify } = self;
        ClientTelemetryLayer { recorder, propagator, classify }
    }

    /// Other words for causes of failure, which become values of `error.type`. What has no word is
    /// `broken`.
    #[must_use]
    pub fn classify(mut self, classify: ErrorClassifier) -> Self {
        self.classify = classify;
        self
    }
}

impl<P> fmt::Debug for ClientTelemetryLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingLayer").finish_non_exhaustive()
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
        let (operation, trail) = (extensions.get::<Operation>(), extensions.get::<Trail>());
        let position =
            SpanPosition::for_client_request(recorder.spans.as_deref(), operation, trail);
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
