//! The gate before a backend.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_service::Service;
use vmcp_core::{BoxError, Operation};

use crate::{CallResult, CircuitHandle, CircuitOpen, Classifier, Outcome, Permit, ResponseBody};

/// Asks the circuit before it calls `S`. See the [crate docs](crate) for an example.
///
/// Whether a request passes is decided in `call`, not in `poll_ready`: it fails at once instead of waiting
/// for the backend to recover.
#[derive(Clone, Debug)]
pub struct CircuitBreaker<S, C> {
    inner: S,
    breaker: CircuitHandle,
    classify: C,
}

pin_project! {
    /// Resolves to the answer, or to [`CircuitOpen`].
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

/// Where the outcome of a request is to be found. Only that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutcomeSource {
    /// In the response.
    Response,
    /// On the stream, if it is that of a request which is resumed: the response itself says nothing.
    Stream,
    /// Nowhere: a notification, an answer to the server, or the end of a session.
    None,
}

/// Methods of handshakes, probes and lists, by which a backend shows less of its health than by a call.
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

    /// What a status says, or an error. No request is answered with 202 (MCP 2025-11-25, Streamable HTTP).
    fn outcome(self, classify: &impl Classifier, seen: CallResult<'_>) -> Outcome {
        match (self, seen) {
            (Self::Response, CallResult::Status(StatusCode::ACCEPTED))
            | (Self::Stream | Self::None, _) => Outcome::Neutral,
            (Self::Response, seen) => classify.classify(seen),
        }
    }
}

impl<S, C> CircuitBreaker<S, C> {
    pub(crate) fn new(inner: S, breaker: CircuitHandle, classify: C) -> Self {
        Self { inner, breaker, classify }
    }

    /// The wrapped service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Unwraps the service.
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
        let method = request.extensions().get::<Operation>().map(Operation::method);
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
            CallProjection::Rejected { open } => match open.take() {
                Some(open) => return Poll::Ready(Err(Box::new(open))),
                // Polled after it was ready: there is nothing to give.
                None => return Poll::Pending,
            },
            CallProjection::Permitted { inner, permit } => (ready!(inner.poll(cx)), permit.take()),
        };
        let Some((permit, classify)) = permit.zip(this.classify.take()) else {
            return Poll::Pending;
        };
        Poll::Ready(match result {
            Ok(response) => {
                let source = *this.source;
                let seen = CallResult::Status(response.status());
                // Whether it works shows when the whole answer has come.
                let watched = match source.outcome(&classify, seen) {
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
                let body = ResponseBody::new(body, &parts.headers, source, watched);
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
