//! Has the token exchanged, then sends the request with the new one.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{AUTHORIZATION, HeaderName, PROXY_AUTHORIZATION};
use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_service::Service;
use vmcp_core::{Backend, BoxError, Caller, CredentialError, CredentialFault};

use crate::subject_token_source::{SubjectTokenSource, TokenError};
use crate::{AccessToken, Exchange, ExchangeError, Resend, Subject, TokenExchangeLayer};

/// Exchanges the token of whoever `S` is asked for. See the [crate docs](crate) for an example.
#[derive(Debug)]
pub struct TokenExchange<S, X, A> {
    inner: S,
    layer: TokenExchangeLayer<X, A>,
}

pin_project! {
    /// Waits for the token, then for the response. Nothing is boxed while the exchange answers at
    /// once and the backend takes its token.
    pub struct ResponseFuture<S, X, A, B>
    where
        S: Service<Request<B>>,
        X: Exchange,
    {
        #[pin]
        state: FutureState<S::Response, X::Future, S::Future>,
        // What the request is sent with; gone when it is sent for the last time.
        pending_request: Option<(S, Request<B>)>,
        principal: Option<Principal>,
        // Whose token of an upstream provider is exchanged; gone when another one was asked for.
        subject_source: Option<SubjectTokenSource>,
        token: Option<AccessToken>,
        exchange: Arc<X>,
        header: HeaderName,
        retry: A,
    }
}

pin_project! {
    #[project = StateProjection]
    enum FutureState<R, X, F> {
        Rejected { fault: Option<TokenError> },
        ResolvingSubject { subject: Pin<Box<dyn Future<Output = Result<Subject, TokenError>> + Send>> },
        Exchanging { #[pin] token: X },
        Ready,
        Calling { #[pin] response: F },
        Retrying { response: Pin<Box<dyn Future<Output = Result<R, BoxError>> + Send>> },
    }
}

/// Who needs the token.
enum Principal {
    Gateway,
    User(Subject),
}

// === impl TokenExchange ===

impl<S, X, A> TokenExchange<S, X, A> {
    pub(crate) fn new(inner: S, layer: TokenExchangeLayer<X, A>) -> Self {
        Self { inner, layer }
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

impl<S: Clone, X, A: Clone> Clone for TokenExchange<S, X, A> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, X, A, B, R> Service<Request<B>> for TokenExchange<S, X, A>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    X: Exchange,
    A: Resend<B>,
    B: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = ResponseFuture<S, X, A, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // The instance that was polled ready goes; a clone stays.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let TokenExchangeLayer { exchange, header, upstream, retry } = &self.layer;
        let headers = request.headers_mut();
        // What a client sent to the gateway is not for backends.
        headers.remove(AUTHORIZATION);
        headers.remove(PROXY_AUTHORIZATION);
        headers.remove(header);
        let (mut principal, mut subject_source) = (None, None);
        let state = match (request.extensions().get::<Caller>(), upstream) {
            (Some(Caller::User(identity)), Some((provider, kind))) => {
                let known = SubjectTokenSource::new(identity.clone(), Arc::clone(provider), *kind);
                let subject = Box::pin(subject_source.insert(known).clone().subject());
                FutureState::ResolvingSubject { subject }
            }
            (Some(caller), _) => match Principal::new(caller) {
                Some(known) => FutureState::exchanging(principal.insert(known), &**exchange),
                None => FutureState::rejected(CredentialFault::NoCaller),
            },
            (None, _) => FutureState::rejected(CredentialFault::NoCaller),
        };
        ResponseFuture {
            state,
            pending_request: Some((inner, request)),
            principal,
            subject_source,
            token: None,
            exchange: Arc::clone(exchange),
            header: header.clone(),
            retry: retry.clone(),
        }
    }
}

// === impl ResponseFuture ===

impl<S, X, A, B, R> Future for ResponseFuture<S, X, A, B>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    X: Exchange,
    A: Resend<B>,
    B: Send + 'static,
{
    type Output = Result<Response<R>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProjection::Rejected { fault } => {
                    let Some(fault) = fault.take() else { return Poll::Pending };
                    return Poll::Ready(Err(credential_error(
                        this.pending_request.as_ref(),
                        fault,
                    )));
                }
                StateProjection::ResolvingSubject { subject } => {
                    match ready!(subject.as_mut().poll(cx)) {
                        Ok(subject) => {
                            let principal = this.principal.insert(Principal::User(subject));
                            this.state.set(FutureState::exchanging(principal, &**this.exchange));
                        }
                        Err(fault) => this.state.set(FutureState::Rejected { fault: Some(fault) }),
                    }
                }
                StateProjection::Exchanging { token } => match ready!(token.poll(cx)) {
                    Ok(token) => {
                        *this.token = Some(token);
                        this.state.set(FutureState::Ready);
                    }
                    Err(fault) => {
                        let next = FutureState::refreshing(
                            this.subject_source.take(),
                            this.principal.as_ref(),
                            fault,
                        );
                        this.state.set(next);
                    }
                },
                StateProjection::Ready => {
                    // Taken once: the state changes, or this future has ended.
                    let Some((mut inner, mut request)) = this.pending_request.take() else {
                        return Poll::Pending;
                    };
                    let mut copy = None;
                    if let Some(token) = &*this.token {
                        copy = this.retry.copy(&request);
                        request.headers_mut().insert(&*this.header, token.value().clone());
                    }
                    let response = inner.call(request);
                    *this.pending_request = copy.map(|copy| (inner, copy));
                    this.state.set(FutureState::Calling { response });
                }
                StateProjection::Calling { response } => {
                    let response = ready!(response.poll(cx)).map_err(Into::into)?;
                    if response.status() != StatusCode::UNAUTHORIZED {
                        return Poll::Ready(Ok(response));
                    }
                    let rejected_token = this.token.take();
                    let can_retry =
                        rejected_token.is_some_and(|token| this.exchange.invalidate(&token));
                    let (Some((inner, request)), Some(principal), true) =
                        (this.pending_request.take(), this.principal.take(), can_retry)
                    else {
                        return Poll::Ready(Ok(response));
                    };
                    // Gives its connection back before the second try asks for one.
                    drop(response);
                    let token = principal
                        .fresh_token(Arc::clone(this.exchange), this.subject_source.take());
                    let retry = send_retry(inner, request, token, this.header.clone());
                    this.state.set(FutureState::Retrying { response: Box::pin(retry) });
                }
                StateProjection::Retrying { response } => return response.as_mut().poll(cx),
            }
        }
    }
}

// === impl State ===

impl<R, X, F> FutureState<R, X, F> {
    fn rejected(fault: impl Into<TokenError>) -> Self {
        Self::Rejected { fault: Some(fault.into()) }
    }

    /// Looks for another subject than that which was refused so, once.
    fn refreshing(
        subject_source: Option<SubjectTokenSource>,
        principal: Option<&Principal>,
        fault: ExchangeError,
    ) -> Self {
        let (Some(subject_source), Some(Principal::User(subject))) = (subject_source, principal)
        else {
            return Self::rejected(fault);
        };
        Self::ResolvingSubject { subject: Box::pin(subject_source.refresh(subject.clone(), fault)) }
    }

    fn exchanging<E: Exchange<Future = X>>(principal: &Principal, exchange: &E) -> Self {
        match principal.request_token(exchange) {
            Some(token) => Self::Exchanging { token },
            None => Self::Ready,
        }
    }
}

// === impl Asker ===

impl Principal {
    /// `None` for a user without a token.
    fn new(caller: &Caller) -> Option<Self> {
        match caller {
            Caller::Gateway => Some(Self::Gateway),
            Caller::User(identity) => Subject::from_identity(identity).map(Self::User),
        }
    }

    /// A token for the second try, of another subject if the first one turns out to be the reason.
    async fn fresh_token<X: Exchange>(
        self,
        exchange: Arc<X>,
        subject_source: Option<SubjectTokenSource>,
    ) -> Result<Option<AccessToken>, TokenError> {
        let Some(exchange_future) = self.request_token(&*exchange) else { return Ok(None) };
        match (exchange_future.await, self, subject_source) {
            (Ok(token), _, _) => Ok(Some(token)),
            (Err(fault), Self::User(subject), Some(subject_source)) => {
                let subject = subject_source.refresh(subject, fault).await?;
                Ok(Some(exchange.exchange(subject).await?))
            }
            (Err(fault), _, _) => Err(fault.into()),
        }
    }

    /// `None` for the gateway alone.
    fn request_token<X: Exchange>(&self, exchange: &X) -> Option<X::Future> {
        match self {
            Self::Gateway => exchange.client_credentials(),
            Self::User(subject) => Some(exchange.exchange(subject.clone())),
        }
    }
}

/// The second and last try.
async fn send_retry<S, B, T>(
    mut inner: S,
    mut request: Request<B>,
    token: T,
    header: HeaderName,
) -> Result<S::Response, BoxError>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
    T: Future<Output = Result<Option<AccessToken>, TokenError>>,
{
    match token.await {
        Ok(Some(token)) => _ = request.headers_mut().insert(header, token.value().clone()),
        Ok(None) => {}
        Err(fault) => return Err(credential_error(Some(&((), request)), fault)),
    }
    poll_fn(|cx| inner.poll_ready(cx)).await.map_err(Into::into)?;
    inner.call(request).await.map_err(Into::into)
}

fn credential_error<S, B>(
    pending_request: Option<&(S, Request<B>)>,
    fault: TokenError,
) -> BoxError {
    match fault {
        TokenError::Exchange(fault) => new_credential_error(
            pending_request,
            CredentialFault::from(&fault),
            Some(Box::new(fault)),
        ),
        TokenError::Subject(fault) => new_credential_error(pending_request, fault, None),
    }
}

fn new_credential_error<S, B>(
    pending_request: Option<&(S, Request<B>)>,
    fault: CredentialFault,
    source: Option<BoxError>,
) -> BoxError {
    let backend =
        pending_request.and_then(|(_, request)| request.extensions().get::<Backend>().cloned());
    let backend = backend.unwrap_or_else(|| Backend::new("(unnamed)"));
    Box::new(CredentialError { backend, fault, source })
}

impl<S, X, A, B> fmt::Debug for ResponseFuture<S, X, A, B>
where
    S: Service<Request<B>>,
    X: Exchange,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
