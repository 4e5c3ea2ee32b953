//! Requests to backends: one span and one measurement each, and the trace that goes on with them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::{BoxError, CredentialError, cause};

use self::watch::Watch;
use crate::answer::Fault;
use crate::client_side::ClientSide;
use crate::propagate::{HeaderOnly, Propagate};
use crate::trace::Tracing;
use crate::{ResponseBody, Trace};

mod watch;

/// Names the cause of a failed request in one of a few fixed words.
pub type Classify = fn(&(dyn std::error::Error + 'static)) -> Option<&'static str>;

/// Measures and records what backends are asked for, and passes the trace on to them.
/// [`Telemetry::outgoing`](crate::Telemetry::outgoing) makes it.
///
/// Reads, from the request's extensions: [`Backend`](vmcp_core::Backend), [`Operation`](crate::Operation)
/// or else the headers `Mcp-Method` and `Mcp-Name`, and [`Trace`]. Writes: `traceparent` and
/// `tracestate`, and with [`InMessage`](crate::InMessage) the same members of the message's `_meta`.
/// Fails with what the service below fails with.
#[derive(Clone)]
pub struct OutgoingLayer<P = HeaderOnly> {
    shared: Arc<Shared>,
    propagate: P,
    classify: Classify,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) side: ClientSide,
    /// Whether anybody looks at metrics.
    pub(crate) measures: bool,
    pub(crate) tracing: Option<Arc<Tracing>>,
}

/// Measures and records what `S` is asked for. See [`OutgoingLayer`].
#[derive(Clone, Debug)]
pub struct Outgoing<S, P = HeaderOnly> {
    inner: S,
    layer: OutgoingLayer<P>,
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
        Outgoing { inner, layer: self.clone() }
    }
}

impl<S, P> Outgoing<S, P> {
    /// The wrapped service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Unwraps the service.
    pub fn into_inner(self) -> S {
        self.inner
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
        let place = match request.extensions().get::<Trace>() {
            Some(trace) => {
                let place = trace.place();
                let parent = place.context.clone();
                match &shared.tracing {
                    Some(tracing) => Some(tracing.place(parent, false, place.in_message)),
                    None => Some(place.clone()),
                }
            }
            None => shared.tracing.as_ref().map(|tracing| tracing.place(None, false, false)),
        };
        if let Some(context) = place.as_ref().and_then(|place| place.context.as_ref()) {
            context.write(request.headers_mut());
        }
        let watch = Watch::begin(shared, &request, place);
        if let Some(context) = watch.as_ref().and_then(Watch::to_carry) {
            request = request.map(|body| propagate.carry(body, context));
        }
        let classify = Words(*classify);
        OutgoingFuture { inner: self.inner.call(request), watch, classify }
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
                Ok(response.map(|body| ResponseBody::outgoing(body, watch)))
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

pub(crate) use self::watch::Watch as OutgoingWatch;

#[cfg(test)]
mod tests;
