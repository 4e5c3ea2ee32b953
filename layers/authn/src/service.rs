//! Who may go in, and what is said on the way out.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Extensions, Method, Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;
use vmcp_core::{Identity, Media, Rejection, Standing, Trail};

use crate::layer::Door;
use crate::scopes::grants;
use crate::{Authenticate, Refusal, ResponseBody};

/// How much longer than the caller's token the answer to a request may go on that came with it in time. Cut
/// off, it would be lost: what was done is done, and few clients ask for the rest of it.
const ANSWER: Duration = Duration::from_secs(600);

/// Lets requests through to `S` with the [`Identity`] of their caller, and answers the others.
///
/// Its future is the inner one's, without an allocation, where the caller is known at once.
pub struct Authenticated<S, A> {
    inner: S,
    door: Arc<Door<A>>,
}

pin_project! {
    /// Waits for the caller's identity, where that takes waiting, and then for the answer.
    pub struct ResponseFuture<F, A, R> {
        #[pin]
        state: State<F, R>,
        door: Arc<Door<A>>,
        until: Option<Until>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, R> {
        Refused { response: Option<Response<R>> },
        Asking { answer: Asking<F, R> },
        Inside { #[pin] inner: F },
    }
}

/// The inner call and how long streams of it may last, or the answer.
type Asking<F, R> = Pin<Box<dyn Future<Output = Result<(F, Until), Response<R>>> + Send>>;

/// How long streams may last: as the token and the session do that they were opened with.
struct Until {
    caller: Identity,
    /// With a request that has an answer, as far as its method tells.
    answers: bool,
}

impl<S, A> Authenticated<S, A> {
    pub(crate) fn new(inner: S, door: Door<A>) -> Self {
        Self { inner, door: Arc::new(door) }
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

impl<S: Clone, A> Clone for Authenticated<S, A> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), door: Arc::clone(&self.door) }
    }
}

impl<S: fmt::Debug, A> fmt::Debug for Authenticated<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticated").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, A, B, R> Service<Request<B>> for Authenticated<S, A>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    A: Authenticate,
    B: Send + 'static,
    R: From<Bytes> + Send + 'static,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, A, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let door = Arc::clone(&self.door);
        if let Some(document) = door.metadata(&request) {
            let state = State::Refused { response: Some(document) };
            return ResponseFuture { state, door, until: None };
        }
        let Some(answer) = door.authenticate.at_once(request.headers()) else {
            let clone = self.inner.clone();
            let inner = std::mem::replace(&mut self.inner, clone);
            let answer = Box::pin(ask(Arc::clone(&door), inner, request));
            return ResponseFuture { state: State::Asking { answer }, door, until: None };
        };
        match door.admit(answer, &mut request) {
            Ok(until) => {
                let inner = self.inner.call(request);
                ResponseFuture { state: State::Inside { inner }, door, until: Some(until) }
            }
            Err(refusal) => {
                let response = Some(door.challenges.answer(&refusal));
                ResponseFuture { state: State::Refused { response }, door, until: None }
            }
        }
    }
}

async fn ask<S, A, B, R>(
    door: Arc<Door<A>>,
    mut inner: S,
    request: Request<B>,
) -> Result<(S::Future, Until), Response<R>>
where
    S: Service<Request<B>>,
    A: Authenticate,
    R: From<Bytes>,
{
    let (head, body) = request.into_parts();
    let answer = door.inspect(&head).await;
    let mut request = Request::from_parts(head, body);
    match door.admit(answer, &mut request) {
        Ok(until) => Ok((inner.call(request), until)),
        Err(refusal) => Err(door.challenges.answer(&refusal)),
    }
}

impl<A> Door<A> {
    /// The answer to a request for the description of the resource, if the layer serves it.
    fn metadata<B, R: From<Bytes>>(&self, request: &Request<B>) -> Option<Response<R>> {
        let resource = self.challenges.resource.as_ref().filter(|_| self.serves_metadata)?;
        resource.answer(request.method(), request.uri().path())
    }

    /// Authenticates where that takes waiting, unless the address has presented too many invalid tokens.
    async fn inspect(&self, head: &Parts) -> Result<Identity, Refusal>
    where
        A: Authenticate,
    {
        let address = head.extensions.get::<SocketAddr>().map(SocketAddr::ip);
        if let Some(address) = address {
            // Counted before it is asked about: many may come at once.
            self.attempts.admit(address, self.clock.now()).map_err(|wait| {
                let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
                Refusal::TooManyAttempts { retry_after: seconds.max(1) }
            })?;
        }
        let answer = self.authenticate.authenticate(&head.headers).await;
        if let Some(address) = address
            && !matches!(answer, Err(Refusal::InvalidToken(_)))
        {
            self.attempts.give_back(address, self.clock.now());
        }
        answer
    }

    /// Makes a request of a known caller ready to go in; answers until when the caller is known.
    fn admit<B>(
        &self,
        answer: Result<Identity, Refusal>,
        request: &mut Request<B>,
    ) -> Result<Until, Refusal> {
        let trail = request.extensions().get::<Trail>();
        let admitted = answer.and_then(|identity| {
            // Who lacks a scope is known, too.
            if let Some(trail) = trail {
                trail.note_identity(&identity);
            }
            let required = &self.challenges.required;
            if required.iter().all(|scope| grants(identity.claims(), scope)) {
                Ok(identity)
            } else {
                Err(Refusal::InsufficientScope(required.clone()))
            }
        });
        let identity = admitted.inspect_err(|refusal| {
            if let Some(trail) = trail {
                trail.note_denied(refusal.reason());
            }
        })?;
        // Nobody further in needs it: strategies that exchange the token take it from the identity.
        request.headers_mut().remove(AUTHORIZATION);
        let answers = request.method() != Method::GET;
        let until = Until { caller: identity.clone(), answers };
        request.extensions_mut().insert(identity);
        Ok(until)
    }

    fn let_out<R>(
        &self,
        mut response: Response<R>,
        until: Option<Until>,
    ) -> Response<ResponseBody<R>> {
        if let Some(header) = challenged(response.extensions(), |challenge, message| {
            self.challenges.of(challenge, message)
        }) {
            response.headers_mut().insert(WWW_AUTHENTICATE, header);
        }
        let Some(Until { caller, answers }) =
            until.filter(|_| Media::of(response.headers()) == Media::Events)
        else {
            return response.map(|body| ResponseBody::new(body, None, None));
        };
        let answers = answers && response.extensions().get::<Standing>().is_none();
        let more = if answers { ANSWER } else { Duration::ZERO };
        let now = self.clock.now();
        let life =
            caller.expires_at().map(|at| (at + more).duration_since(now).unwrap_or_default());
        response.map(|body| ResponseBody::new(body, life, caller.ended()))
    }
}

fn challenged<T>(
    extensions: &Extensions,
    header: impl FnOnce(&vmcp_core::Challenge, &str) -> Option<T>,
) -> Option<T> {
    let rejection = extensions.get::<Rejection>()?;
    header(rejection.challenge()?, rejection.message())
}

impl<F, A, R, E> Future for ResponseFuture<F, A, R>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<ResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Inside { inner } => {
                    let response = ready!(inner.poll(cx))?;
                    return Poll::Ready(Ok(this.door.let_out(response, this.until.take())));
                }
                StateProjection::Asking { answer } => match ready!(answer.as_mut().poll(cx)) {
                    Ok((inner, until)) => {
                        *this.until = Some(until);
                        State::Inside { inner }
                    }
                    Err(response) => State::Refused { response: Some(response) },
                },
                StateProjection::Refused { response } => match response.take() {
                    Some(response) => {
                        return Poll::Ready(Ok(
                            response.map(|body| ResponseBody::new(body, None, None))
                        ));
                    }
                    // Polled again after it was ready.
                    None => return Poll::Pending,
                },
            };
            this.state.set(next);
        }
    }
}

impl<F, A, R> fmt::Debug for ResponseFuture<F, A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
