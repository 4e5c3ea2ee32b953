//! The gate before a backend.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_service::Service;
use vmcp_core::{BoxError, Operation};

use crate::{Breaker, Class, Classify, Open, Permit, ResponseBody, Seen};

/// Asks the circuit before it calls `S`. See the [crate docs](crate) for an example.
///
/// Whether a request passes is decided in `call`, not in `poll_ready`: it fails at once instead of waiting
/// for the backend to recover.
#[derive(Clone, Debug)]
pub struct Guarded<S, C> {
    inner: S,
    breaker: Breaker,
    classify: C,
}

pin_project! {
    /// Resolves to the answer, or to [`Open`].
    #[derive(Debug)]
    pub struct ResponseFuture<F, C> {
        #[pin]
        call: Call<F>,
        outcome: Outcome,
        classify: Option<C>,
    }
}

pin_project! {
    #[project = CallProjection]
    #[derive(Debug)]
    enum Call<F> {
        Refused { open: Option<Open> },
        Admitted { #[pin] inner: F, permit: Option<Permit> },
    }
}

/// Where the outcome of a request is to be found. Only that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
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

impl Outcome {
    fn of(http: &Method, method: Option<&str>) -> Self {
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
    fn class(self, classify: &impl Classify, seen: Seen<'_>) -> Class {
        match (self, seen) {
            (Self::Response, Seen::Status(StatusCode::ACCEPTED))
            | (Self::Stream | Self::None, _) => Class::Neutral,
            (Self::Response, seen) => classify.classify(seen),
        }
    }
}

impl<S, C> Guarded<S, C> {
    pub(crate) fn new(inner: S, breaker: Breaker, classify: C) -> Self {
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

impl<S, C, B, R> Service<Request<B>> for Guarded<S, C>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    C: Classify + Clone,
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
        let outcome = Outcome::of(request.method(), method);
        let is_background = method.is_some_and(|method| BACKGROUND.contains(&method));
        let call = match self.breaker.admit() {
            Ok(permit) if is_background => {
                let permit = Some(permit.background());
                Call::Admitted { inner: self.inner.call(request), permit }
            }
            Ok(permit) => Call::Admitted { inner: self.inner.call(request), permit: Some(permit) },
            Err(open) => Call::Refused { open: Some(open) },
        };
        ResponseFuture { call, outcome, classify: Some(self.classify.clone()) }
    }
}

impl<F, C, R, E> Future for ResponseFuture<F, C>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<BoxError>,
    C: Classify,
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    type Output = Result<Response<ResponseBody<R, C>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (answer, permit) = match this.call.project() {
            CallProjection::Refused { open } => match open.take() {
                Some(open) => return Poll::Ready(Err(Box::new(open))),
                // Polled after it was ready: there is nothing to give.
                None => return Poll::Pending,
            },
            CallProjection::Admitted { inner, permit } => (ready!(inner.poll(cx)), permit.take()),
        };
        let Some((permit, classify)) = permit.zip(this.classify.take()) else {
            return Poll::Pending;
        };
        Poll::Ready(match answer {
            Ok(response) => {
                let outcome = *this.outcome;
                let seen = Seen::Status(response.status());
                // Whether it works shows when the whole answer has come.
                let watched = match outcome.class(&classify, seen) {
                    Class::Success => Some((permit, classify)),
                    _ if outcome == Outcome::Stream && !permit.is_trial() => {
                        Some((permit, classify))
                    }
                    class => {
                        permit.settle(class);
                        None
                    }
                };
                let (parts, body) = response.into_parts();
                let body = ResponseBody::new(body, &parts.headers, outcome, watched);
                Ok(Response::from_parts(parts, body))
            }
            Err(error) => {
                let error = error.into();
                permit.settle(this.outcome.class(&classify, Seen::Error(&*error)));
                Err(error)
            }
        })
    }
}

#[cfg(test)]
mod tests;
