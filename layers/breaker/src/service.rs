//! The middleware and its response future.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_service::Service;
use vmcp_core::{BoxError, McpOperation};

use crate::{CallResult, CircuitHandle, CircuitOpen, Classifier, Outcome, Permit, ResponseBody};

/// Circuit-breaker middleware. See the [crate docs](crate) for an example.
///
/// The circuit is checked in `call`, not in `poll_ready`, so that requests fail immediately instead of waiting for
/// the backend to recover.
#[derive(Clone, Debug)]
pub struct CircuitBreaker<S, C> {
    inner: S,
    breaker: CircuitHandle,
    classify: C,
}

pin_project! {
    /// Response future of [`CircuitBreaker`]. Fails with [`CircuitOpen`] if the circuit rejects the request.
    #[derive(Debug)]
    pub struct ResponseFuture<F, C> {
        #[pin]
        call: Call<F>,
        source: OutcomeSource,
        classify: Option<C>,
    }
}

pin_project! {
    #[project = CallProjection]
    #[derive(Debug)]
    enum Call<F> {
        Rejected { open: Option<CircuitOpen> },
        Permitted { #[pin] inner: F, permit: Option<Permit> },
    }
}

/// The part of an exchange that determines the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutcomeSource {
    /// The response to a request.
    Response,
    /// The event stream of a `GET`, which may carry the response of a resumed request.
    Stream,
    /// Nothing: a notification, a response to a server request, or the end of a session.
    None,
}

/// Methods of handshakes, probes and lists. Their success says less about a backend's health than that of a call.
const BACKGROUND: [&str; 7] = [
    "initialize",
    "server/discover",
    "ping",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
];

impl OutcomeSource {
    fn from_request(http: &Method, method: Option<&str>) -> Self {
        match *http {
            Method::POST => match method {
                Some(method) if method.is_empty() || method.starts_with("notifications/") => {
                    Self::None
                }
                _ => Self::Response,
            },
            Method::GET => Self::Stream,
            _ => Self::None,
        }
    }

    /// Classifies a status or an error. No request is answered with 202 (MCP 2025-11-25, Streamable HTTP).
    fn outcome(self, classify: &impl Classifier, result: CallResult<'_>) -> Outcome {
        match (self, result) {
            (Self::Response, CallResult::Status(StatusCode::ACCEPTED))
            | (Self::Stream | Self::None, _) => Outcome::Neutral,
            (Self::Response, result) => classify.classify(result),
        }
    }
}

impl<S, C> CircuitBreaker<S, C> {
    pub(crate) fn new(inner: S, breaker: CircuitHandle, classify: C) -> Self {
        Self { inner, breaker, classify }
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

impl<S, C, B, R> Service<Request<B>> for CircuitBreaker<S, C>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    C: Classifier + Clone,
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody<R, C>>;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, C>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let method = request.extensions().get::<McpOperation>().map(McpOperation::method);
        let source = OutcomeSource::from_request(request.method(), method);
        let is_background = method.is_some_and(|method| BACKGROUND.contains(&method));
        let call = match self.breaker.try_acquire() {
            Ok(permit) if is_background => {
                let permit = Some(permit.background());
                Call::Permitted { inner: self.inner.call(request), permit }
            }
            Ok(permit) => Call::Permitted { inner: self.inner.call(request), permit: Some(permit) },
            Err(open) => Call::Rejected { open: Some(open) },
        };
        ResponseFuture { call, source, classify: Some(self.classify.clone()) }
    }
}

impl<F, C, R, E> Future for ResponseFuture<F, C>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<BoxError>,
    C: Classifier,
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    type Output = Result<Response<ResponseBody<R, C>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (result, permit) = match this.call.project() {
            CallProjection::Rejected { open } => {
                let open = open.take().expect("future polled after completion");
                return Poll::Ready(Err(Box::new(open)));
            }
            CallProjection::Permitted { inner, permit } => (ready!(inner.poll(cx)), permit.take()),
        };
        let (permit, classify) =
            permit.zip(this.classify.take()).expect("future polled after completion");
        Poll::Ready(match result {
            Ok(response) => {
                let source = *this.source;
                let status = CallResult::Status(response.status());
                // A success is recorded only at the end of the response.
                let pending = match source.outcome(&classify, status) {
                    Outcome::Success => Some((permit, classify)),
                    _ if source == OutcomeSource::Stream && !permit.is_trial() => {
                        Some((permit, classify))
                    }
                    outcome => {
                        permit.record(outcome);
                        None
                    }
                };
                let (parts, body) = response.into_parts();
                let body = ResponseBody::new(body, &parts.headers, source, pending);
                Ok(Response::from_parts(parts, body))
            }
            Err(error) => {
                let error = error.into();
                permit.record(this.source.outcome(&classify, CallResult::Error(&*error)));
                Err(error)
            }
        })
    }
}

#[cfg(test)]
mod tests;
