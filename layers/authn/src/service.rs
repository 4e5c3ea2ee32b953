//! The middleware and its response future.

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
use vmcp_core::{Identity, MediaType, NotificationStream, Rejection, RequestContext};

use crate::layer::Inner;
use crate::scopes::grants_scope;
use crate::{AuthError, Authenticator, ResponseBody};

/// Maximum time that the response to a request may outlast the caller's token. Its effects have happened, and few
/// clients resume a truncated response.
const RESPONSE_GRACE_PERIOD: Duration = Duration::from_mins(10);

/// Authentication middleware. Forwards requests with the [`Identity`] of their caller and rejects all others.
///
/// The future allocates only if authentication has to wait.
pub struct Authentication<S, A> {
    inner: S,
    inner_state: Arc<Inner<A>>,
}

pin_project! {
    /// Response future of [`Authentication`].
    pub struct ResponseFuture<F, A, R> {
        #[pin]
        state: FutureState<F, R>,
        inner_state: Arc<Inner<A>>,
        deadline: Option<StreamDeadline>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum FutureState<F, R> {
        Rejected { response: Option<Response<R>> },
        Authenticating { result: Authenticating<F, R> },
        Calling { #[pin] inner: F },
    }
}

/// Future of the inner call and the deadline of its streams, or of a rejection.
type Authenticating<F, R> =
    Pin<Box<dyn Future<Output = Result<(F, StreamDeadline), Response<R>>> + Send>>;

/// Deadline of the streams of a request: the end of the caller's token or session.
struct StreamDeadline {
    caller: Identity,
    /// Set if the request expects a response, judging by the HTTP method.
    is_request: bool,
}

impl<S, A> Authentication<S, A> {
    pub(crate) fn new(inner: S, inner_state: Inner<A>) -> Self {
        Self { inner, inner_state: Arc::new(inner_state) }
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

impl<S: Clone, A> Clone for Authentication<S, A> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), inner_state: Arc::clone(&self.inner_state) }
    }
}

impl<S: fmt::Debug, A> fmt::Debug for Authentication<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticated").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, A, B, R> Service<Request<B>> for Authentication<S, A>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    A: Authenticator,
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
        let inner_state = Arc::clone(&self.inner_state);
        if let Some(document) = inner_state.metadata(&request) {
            let state = FutureState::Rejected { response: Some(document) };
            return ResponseFuture { state, inner_state, deadline: None };
        }
        let Some(result) = inner_state.authenticator.try_now(request.headers()) else {
            let clone = self.inner.clone();
            let inner = std::mem::replace(&mut self.inner, clone);
            let result = Box::pin(authenticate_and_call(Arc::clone(&inner_state), inner, request));
            return ResponseFuture {
                state: FutureState::Authenticating { result },
                inner_state,
                deadline: None,
            };
        };
        match inner_state.admit(result, &mut request) {
            Ok(deadline) => {
                let inner = self.inner.call(request);
                ResponseFuture {
                    state: FutureState::Calling { inner },
                    inner_state,
                    deadline: Some(deadline),
                }
            }
            Err(error) => {
                let response = Some(inner_state.challenges.response(&error));
                ResponseFuture {
                    state: FutureState::Rejected { response },
                    inner_state,
                    deadline: None,
                }
            }
        }
    }
}

async fn authenticate_and_call<S, A, B, R>(
    inner_state: Arc<Inner<A>>,
    mut inner: S,
    request: Request<B>,
) -> Result<(S::Future, StreamDeadline), Response<R>>
where
    S: Service<Request<B>>,
    A: Authenticator,
    R: From<Bytes>,
{
    let (head, body) = request.into_parts();
    let result = inner_state.authenticate(&head).await;
    let mut request = Request::from_parts(head, body);
    match inner_state.admit(result, &mut request) {
        Ok(deadline) => Ok((inner.call(request), deadline)),
        Err(error) => Err(inner_state.challenges.response(&error)),
    }
}

impl<A> Inner<A> {
    /// Returns the metadata document, if the request asks for it and the layer serves it.
    fn metadata<B, R: From<Bytes>>(&self, request: &Request<B>) -> Option<Response<R>> {
        let resource = self.challenges.resource.as_ref().filter(|_| self.serves_metadata)?;
        resource.response(request.method(), request.uri().path())
    }

    /// Authenticates the caller asynchronously, unless the address presented too many invalid tokens.
    async fn authenticate(&self, head: &Parts) -> Result<Identity, AuthError>
    where
        A: Authenticator,
    {
        let address = head.extensions.get::<SocketAddr>().map(SocketAddr::ip);
        if let Some(address) = address {
            // Counted before the verification, since many may arrive at once.
            self.invalid_token_limiter.admit(address, self.clock.now()).map_err(|wait| {
                let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
                AuthError::TooManyAttempts { retry_after: seconds.max(1) }
            })?;
        }
        let result = self.authenticator.authenticate(&head.headers).await;
        if let Some(address) = address
            && !matches!(result, Err(AuthError::InvalidToken(_)))
        {
            self.invalid_token_limiter.give_back(address, self.clock.now());
        }
        result
    }

    /// Prepares the request of an authenticated caller and returns its stream deadline.
    fn admit<B>(
        &self,
        result: Result<Identity, AuthError>,
        request: &mut Request<B>,
    ) -> Result<StreamDeadline, AuthError> {
        let request_context = request.extensions().get::<RequestContext>();
        let admitted = result.and_then(|identity| {
            // A caller without the required scopes is known, too.
            if let Some(request_context) = request_context {
                request_context.record_identity(&identity);
            }
            let required = &self.challenges.required;
            if required.iter().all(|scope| grants_scope(identity.claims(), scope)) {
                Ok(identity)
            } else {
                Err(AuthError::InsufficientScope(required.clone()))
            }
        });
        let identity = admitted.inspect_err(|error| {
            if let Some(request_context) = request_context {
                request_context.record_denied(error.reason());
            }
        })?;
        // Layers that exchange the token take it from the identity.
        request.headers_mut().remove(AUTHORIZATION);
        let is_request = request.method() != Method::GET;
        let deadline = StreamDeadline { caller: identity.clone(), is_request };
        request.extensions_mut().insert(identity);
        Ok(deadline)
    }

    fn map_response<R>(
        &self,
        mut response: Response<R>,
        deadline: Option<StreamDeadline>,
    ) -> Response<ResponseBody<R>> {
        if let Some(header) = challenge_header(response.extensions(), |challenge, message| {
            self.challenges.header_for(challenge, message)
        }) {
            response.headers_mut().insert(WWW_AUTHENTICATE, header);
        }
        let Some(StreamDeadline { caller, is_request }) =
            deadline.filter(|_| MediaType::of(response.headers()) == MediaType::EventStream)
        else {
            return response.map(|body| ResponseBody::new(body, None, None));
        };
        let is_request = is_request && response.extensions().get::<NotificationStream>().is_none();
        let grace = if is_request { RESPONSE_GRACE_PERIOD } else { Duration::ZERO };
        let now = self.clock.now();
        let lifetime =
            caller.expires_at().map(|at| (at + grace).duration_since(now).unwrap_or_default());
        response.map(|body| ResponseBody::new(body, lifetime, caller.revoked()))
    }
}

fn challenge_header<T>(
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
                StateProjection::Calling { inner } => {
                    let response = ready!(inner.poll(cx))?;
                    return Poll::Ready(Ok(this
                        .inner_state
                        .map_response(response, this.deadline.take())));
                }
                StateProjection::Authenticating { result } => {
                    match ready!(result.as_mut().poll(cx)) {
                        Ok((inner, deadline)) => {
                            *this.deadline = Some(deadline);
                            FutureState::Calling { inner }
                        }
                        Err(response) => FutureState::Rejected { response: Some(response) },
                    }
                }
                StateProjection::Rejected { response } => {
                    let response = response.take().expect("future polled after completion");
                    return Poll::Ready(Ok(
                        response.map(|body| ResponseBody::new(body, None, None))
                    ));
                }
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
