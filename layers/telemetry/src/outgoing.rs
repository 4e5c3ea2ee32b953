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
use vmcp_metrics::{BackendMetrics, Fault};
use vmcp_trace_context::{HeaderOnly, Propagate};

use crate::ResponseBody;
use crate::link::Place;
use crate::recorder::Shared;
use crate::watch::Watch;

/// Names the cause of a failed request in one of a few fixed words.
pub type Classify = fn(&(dyn std::error::Error + 'static)) -> Option<&'static str>;

/// Measures and records what backends are asked for, and passes the trace on to them.
/// [`Recorder::outgoing`](crate::Recorder::outgoing) makes it.
///
/// Reads, from the request's extensions: [`Backend`], [`Operation`] or else the headers `Mcp-Method` and
/// `Mcp-Name`, [`Caller`](vmcp_core::Caller), and the [`Trail`] of the request that it is made for, in the
/// operation or beside it.
/// Writes: `traceparent` and `tracestate`, and with [`InMessage`](vmcp_trace_context::InMessage) the same
/// members of the message's `_meta`. Fails with what the service below fails with.
#[derive(Clone)]
pub struct OutgoingLayer<P = HeaderOnly> {
    shared: Arc<Shared>,
    propagate: P,
    classify: Classify,
}

/// Measures and records what `S` is asked for. See [`OutgoingLayer`].
#[derive(Clone, Debug)]
pub struct Outgoing<S, P = HeaderOnly> {
    inner: S,
    layer: OutgoingLayer<P>,
    /// Where requests to the backend are recorded that the first one went to: mostly all do.
    known: Arc<OnceLock<Arc<BackendMetrics>>>,
}

pin_project! {
    /// Waits for the beginning of the response.
    #[derive(Debug)]
    pub struct OutgoingFuture<F> {
        #[pin]
        inner: F,
        watch: Option<Watch>,
        classify: Words,
    }
}

/// A [`Classify`] that can be printed.
struct Words(Classify);

impl OutgoingLayer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let classify: Classify = |error| cause::<CredentialError>(error).map(|_| "credentials");
        Self { shared, propagate: HeaderOnly, classify }
    }
}

impl<P> OutgoingLayer<P> {
    /// Another way to pass the trace on.
    #[must_use]
    pub fn propagate<Q>(self, propagate: Q) -> OutgoingLayer<Q> {
        let Self { shared, propagate: _, classify } = self;
        OutgoingLayer { shared, propagate, classify }
    }

    /// Other words for causes of failure, which become values of `error.type`. What has no word is
    /// `broken`.
    #[must_use]
    pub fn classify(mut self, classify: Classify) -> Self {
        self.classify = classify;
        self
    }
}

impl<P> fmt::Debug for OutgoingLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingLayer").finish_non_exhaustive()
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Words")
    }
}

impl<S, P: Clone> Layer<S> for OutgoingLayer<P> {
    type Service = Outgoing<S, P>;

    fn layer(&self, inner: S) -> Outgoing<S, P> {
        Outgoing { inner, layer: self.clone(), known: Arc::default() }
    }
}

impl<S, P> Outgoing<S, P> {
    fn metrics(&self, backend: Option<&Backend>) -> Arc<BackendMetrics> {
        let Some(backend) = backend else {
            return self.layer.shared.client.backend(&Backend::new(""));
        };
        if let Some(known) = self.known.get()
            && known.backend() == backend
        {
            return Arc::clone(known);
        }
        let metrics = self.layer.shared.client.backend(backend);
        _ = self.known.set(Arc::clone(&metrics));
        metrics
    }
}

impl<S, B, R, P> Service<Request<B>> for Outgoing<S, P>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: http_body::Body,
    P: Propagate<B>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = BoxError;
    type Future = OutgoingFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let OutgoingLayer { shared, propagate, classify } = &self.layer;
        let extensions = request.extensions();
        let (operation, trail) = (extensions.get::<Operation>(), extensions.get::<Trail>());
        let place = Place::of_outgoing(shared.spans.as_deref(), operation, trail);
        if let Some(context) = place.as_ref().and_then(|place| place.context.as_ref()) {
            context.write(request.headers_mut());
        }
        let watches = shared.measures || shared.spans.is_some();
        if shared.spans.is_some()
            && request.method() == Method::POST
            && let Some(context) = place.as_ref().and_then(Place::to_carry)
        {
            request = request.map(|body| propagate.carry(body, context));
        }
        let watch = watches.then(|| {
            let metrics = self.metrics(request.extensions().get());
            Watch::sent(shared, metrics, &request, place)
        });
        OutgoingFuture { inner: self.inner.call(request), watch, classify: Words(*classify) }
    }
}

impl<F, R, E> Future for OutgoingFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<BoxError>,
    R: http_body::Body,
{
    type Output = Result<Response<ResponseBody<R>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.inner.poll(cx));
        let mut watch = this.watch.take();
        Poll::Ready(match answer {
            Ok(response) => {
                if let Some(watch) = &mut watch {
                    watch.answered(&response);
                }
                Ok(response.map(|body| ResponseBody::new(body, watch)))
            }
            Err(error) => {
                let error = error.into();
                if let Some(watch) = &mut watch {
                    let word = (this.classify.0)(error.as_ref());
                    watch.end(word.map_or(Fault::BROKEN, Fault::Word));
                }
                Err(error)
            }
        })
    }
}

#[cfg(test)]
mod tests;
