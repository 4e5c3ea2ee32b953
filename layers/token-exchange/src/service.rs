//! The middleware and its response future.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{AUTHORIZATION, HeaderName, PROXY_AUTHORIZATION};
use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_service::Service;
use vmcp_core::{Backend, BoxError, Caller, CredentialError, CredentialErrorKind};

use crate::subject_token_source::{SubjectTokenSource, TokenError};
use crate::{AccessToken, Exchange, ExchangeError, RetryPolicy, Subject, TokenExchangeLayer};

/// Middleware that exchanges the caller's token. See the [crate docs](crate) for an example.
#[derive(Debug)]
pub struct TokenExchange<S, X, A> {
    inner: S,
    layer: TokenExchangeLayer<X, A>,
}

pin_project! {
    /// Response future of [`TokenExchange`]. It allocates only to wait for an upstream token and for a retry.
    pub struct ResponseFuture<S, X, A, B>
    where
        S: Service<Request<B>>,
        X: Exchange,
    {
        #[pin]
        state: FutureState<S::Response, X::Future, S::Future>,
        // Clones of the service and the request; `None` from the last attempt on.
        pending: Option<(S, Request<B>)>,
        principal: Option<Principal>,
        // Source of the upstream token; `None` once it has provided a fresh one.
        source: Option<SubjectTokenSource>,
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
        Resolving { subject: Pin<Box<dyn Future<Output = Result<Subject, TokenError>> + Send>> },
        Exchanging { #[pin] token: X },
        Ready,
        Calling { #[pin] response: F },
        Retrying { response: Pin<Box<dyn Future<Output = Result<R, BoxError>> + Send>> },
    }
}

/// Principal of the requested token.
enum Principal {
    Gateway,
    User(Subject),
}

// === impl TokenExchange ===

impl<S, X, A> TokenExchange<S, X, A> {
    pub(crate) fn new(inner: S, layer: TokenExchangeLayer<X, A>) -> Self {
        Self { inner, layer }
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
    A: RetryPolicy<B>,
    B: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = ResponseFuture<S, X, A, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // The instance that was polled ready is called; a clone replaces it.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let TokenExchangeLayer { exchange, header, upstream, retry } = &self.layer;
        let headers = request.headers_mut();
        // The client's credentials for the gateway are not meant for backends.
        headers.remove(AUTHORIZATION);
        headers.remove(PROXY_AUTHORIZATION);
        headers.remove(header);
        let (mut principal, mut source) = (None, None);
        let state = match (request.extensions().get::<Caller>(), upstream) {
            (Some(Caller::User(identity)), Some((provider, kind))) => {
                let known = SubjectTokenSource::new(identity.clone(), Arc::clone(provider), *kind);
                let subject = Box::pin(source.insert(known).clone().subject());
                FutureState::Resolving { subject }
            }
            (Some(caller), _) => match Principal::new(caller) {
                Some(known) => FutureState::exchanging(principal.insert(known), &**exchange),
                None => FutureState::rejected(CredentialErrorKind::NoCaller),
            },
            (None, _) => FutureState::rejected(CredentialErrorKind::NoCaller),
        };
        ResponseFuture {
            state,
            pending: Some((inner, request)),
            principal,
            source,
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
    A: RetryPolicy<B>,
    B: Send + 'static,
{
    type Output = Result<Response<R>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProjection::Rejected { fault } => {
                    let fault = fault.take().expect("future polled after completion");
                    return Poll::Ready(Err(credential_error(this.pending.as_ref(), fault)));
                }
                StateProjection::Resolving { subject } => match ready!(subject.as_mut().poll(cx)) {
                    Ok(subject) => {
                        let principal = this.principal.insert(Principal::User(subject));
                        this.state.set(FutureState::exchanging(principal, &**this.exchange));
                    }
                    Err(fault) => this.state.set(FutureState::Rejected { fault: Some(fault) }),
                },
                StateProjection::Exchanging { token } => match ready!(token.poll(cx)) {
                    Ok(token) => {
                        *this.token = Some(token);
                        this.state.set(FutureState::Ready);
                    }
                    Err(fault) => {
                        let (source, principal) = (this.source.take(), this.principal.as_ref());
                        this.state.set(FutureState::refreshing(source, principal, fault));
                    }
                },
                StateProjection::Ready => {
                    let (mut inner, mut request) =
                        this.pending.take().expect("each attempt has a request");
                    let mut copy = None;
                    if let Some(token) = &*this.token {
                        copy = this.retry.clone_request(&request);
                        request.headers_mut().insert(&*this.header, token.value().clone());
                    }
                    let response = inner.call(request);
                    *this.pending = copy.map(|copy| (inner, copy));
                    this.state.set(FutureState::Calling { response });
                }
                StateProjection::Calling { response } => {
                    let response = ready!(response.poll(cx)).map_err(Into::into)?;
                    if response.status() != StatusCode::UNAUTHORIZED {
                        return Poll::Ready(Ok(response));
                    }
                    let rejected = this.token.take();
                    let can_retry = rejected.is_some_and(|token| this.exchange.invalidate(&token));
                    let (Some((inner, request)), Some(principal), true) =
                        (this.pending.take(), this.principal.take(), can_retry)
                    else {
                        return Poll::Ready(Ok(response));
                    };
                    // Frees the connection before the retry needs one.
                    drop(response);
                    let token =
                        principal.fresh_token(Arc::clone(this.exchange), this.source.take());
                    let retry = send_retry(inner, request, token, this.header.clone());
                    this.state.set(FutureState::Retrying { response: Box::pin(retry) });
                }
                StateProjection::Retrying { response } => return response.as_mut().poll(cx),
            }
        }
    }
}

// === impl FutureState ===

impl<R, X, F> FutureState<R, X, F> {
    fn rejected(fault: impl Into<TokenError>) -> Self {
        Self::Rejected { fault: Some(fault.into()) }
    }

    /// Resolves another subject after the exchange rejected the first one, once.
    fn refreshing(
        source: Option<SubjectTokenSource>,
        principal: Option<&Principal>,
        fault: ExchangeError,
    ) -> Self {
        let (Some(source), Some(Principal::User(subject))) = (source, principal) else {
            return Self::rejected(fault);
        };
        Self::Resolving { subject: Box::pin(source.refresh(subject.clone(), fault)) }
    }

    fn exchanging<E: Exchange<Future = X>>(principal: &Principal, exchange: &E) -> Self {
        match principal.request_token(exchange) {
            Some(token) => Self::Exchanging { token },
            None => Self::Ready,
        }
    }
}

// === impl Principal ===

impl Principal {
    /// Returns `None` for a user without a token.
    fn new(caller: &Caller) -> Option<Self> {
        match caller {
            Caller::Gateway => Some(Self::Gateway),
            Caller::User(identity) => Subject::from_identity(identity).map(Self::User),
        }
    }

    /// Returns a token for the retry, of a refreshed subject token if the exchange rejects the first one.
    async fn fresh_token<X: Exchange>(
        self,
        exchange: Arc<X>,
        source: Option<SubjectTokenSource>,
    ) -> Result<Option<AccessToken>, TokenError> {
        let Some(exchange_future) = self.request_token(&*exchange) else { return Ok(None) };
        match (exchange_future.await, self, source) {
            (Ok(token), _, _) => Ok(Some(token)),
            (Err(fault), Self::User(subject), Some(source)) => {
                let subject = source.refresh(subject, fault).await?;
                Ok(Some(exchange.exchange(subject).await?))
            }
            (Err(fault), _, _) => Err(fault.into()),
        }
    }

    /// Requests a token; `None` for a gateway without its own token.
    fn request_token<X: Exchange>(&self, exchange: &X) -> Option<X::Future> {
        match self {
            Self::Gateway => exchange.client_credentials(),
            Self::User(subject) => Some(exchange.exchange(subject.clone())),
        }
    }
}

/// Sends the retry.
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

fn credential_error<S, B>(pending: Option<&(S, Request<B>)>, fault: TokenError) -> BoxError {
    match fault {
        TokenError::Exchange(fault) => {
            new_credential_error(pending, CredentialErrorKind::from(&fault), Some(Box::new(fault)))
        }
        TokenError::Subject(fault) => new_credential_error(pending, fault, None),
    }
}

fn new_credential_error<S, B>(
    pending: Option<&(S, Request<B>)>,
    kind: CredentialErrorKind,
    source: Option<BoxError>,
) -> BoxError {
    let backend = pending.and_then(|(_, request)| request.extensions().get::<Backend>().cloned());
    let backend = backend.unwrap_or_else(|| Backend::new("(unnamed)"));
    Box::new(CredentialError { backend, kind, source })
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
