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

use crate::renewal::{NoToken, Renewal};
use crate::{Exchange, ExchangeFault, Exchanged, Resend, Subject, TokenExchangeLayer};

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
        state: State<S::Response, X::Future, S::Future>,
        // What the request is sent with; gone when it is sent for the last time.
        held: Option<(S, Request<B>)>,
        asker: Option<Asker>,
        // Whose token of an upstream provider is exchanged; gone when another one was asked for.
        renewal: Option<Renewal>,
        token: Option<Exchanged>,
        exchange: Arc<X>,
        header: HeaderName,
        again: A,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<R, X, F> {
        Refused { fault: Option<NoToken> },
        Finding { subject: Pin<Box<dyn Future<Output = Result<Subject, NoToken>> + Send>> },
        Exchanging { #[pin] token: X },
        Ready,
        Sent { #[pin] response: F },
        SentAgain { response: Pin<Box<dyn Future<Output = Result<R, BoxError>> + Send>> },
    }
}

/// Who needs the token.
enum Asker {
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
        let TokenExchangeLayer { exchange, header, upstream, again } = &self.layer;
        let headers = request.headers_mut();
        // What a client sent to the gateway is not for backends.
        headers.remove(AUTHORIZATION);
        headers.remove(PROXY_AUTHORIZATION);
        headers.remove(header);
        let (mut asker, mut renewal) = (None, None);
        let state = match (request.extensions().get::<Caller>(), upstream) {
            (Some(Caller::User(identity)), Some((provider, kind))) => {
                let known = Renewal::new(identity.clone(), Arc::clone(provider), *kind);
                let subject = Box::pin(renewal.insert(known).clone().subject());
                State::Finding { subject }
            }
            (Some(caller), _) => match Asker::of(caller) {
                Some(known) => State::asking(asker.insert(known), &**exchange),
                None => State::refused(CredentialFault::NoCaller),
            },
            (None, _) => State::refused(CredentialFault::NoCaller),
        };
        ResponseFuture {
            state,
            held: Some((inner, request)),
            asker,
            renewal,
            token: None,
            exchange: Arc::clone(exchange),
            header: header.clone(),
            again: again.clone(),
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
                StateProjection::Refused { fault } => {
                    let Some(fault) = fault.take() else { return Poll::Pending };
                    return Poll::Ready(Err(no_token(this.held.as_ref(), fault)));
                }
                StateProjection::Finding { subject } => match ready!(subject.as_mut().poll(cx)) {
                    Ok(subject) => {
                        let asker = this.asker.insert(Asker::User(subject));
                        this.state.set(State::asking(asker, &**this.exchange));
                    }
                    Err(fault) => this.state.set(State::Refused { fault: Some(fault) }),
                },
                StateProjection::Exchanging { token } => match ready!(token.poll(cx)) {
                    Ok(token) => {
                        *this.token = Some(token);
                        this.state.set(State::Ready);
                    }
                    Err(fault) => {
                        let next = State::renewing(this.renewal.take(), this.asker.as_ref(), fault);
                        this.state.set(next);
                    }
                },
                StateProjection::Ready => {
                    // Taken once: the state changes, or this future has ended.
                    let Some((mut inner, mut request)) = this.held.take() else {
                        return Poll::Pending;
                    };
                    let mut copy = None;
                    if let Some(token) = &*this.token {
                        copy = this.again.copy(&request);
                        request.headers_mut().insert(&*this.header, token.value().clone());
                    }
                    let response = inner.call(request);
                    *this.held = copy.map(|copy| (inner, copy));
                    this.state.set(State::Sent { response });
                }
                StateProjection::Sent { response } => {
                    let response = ready!(response.poll(cx)).map_err(Into::into)?;
                    if response.status() != StatusCode::UNAUTHORIZED {
                        return Poll::Ready(Ok(response));
                    }
                    let refused = this.token.take();
                    let more = refused.is_some_and(|token| this.exchange.refused(&token));
                    let (Some((inner, request)), Some(asker), true) =
                        (this.held.take(), this.asker.take(), more)
                    else {
                        return Poll::Ready(Ok(response));
                    };
                    // Gives its connection back before the second try asks for one.
                    drop(response);
                    let token = asker.fresh(Arc::clone(this.exchange), this.renewal.take());
                    let again = send_again(inner, request, token, this.header.clone());
                    this.state.set(State::SentAgain { response: Box::pin(again) });
                }
                StateProjection::SentAgain { response } => return response.as_mut().poll(cx),
            }
        }
    }
}

// === impl State ===

impl<R, X, F> State<R, X, F> {
    fn refused(fault: impl Into<NoToken>) -> Self {
        Self::Refused { fault: Some(fault.into()) }
    }

    /// Looks for another subject than that which was refused so, once.
    fn renewing(renewal: Option<Renewal>, asker: Option<&Asker>, fault: ExchangeFault) -> Self {
        let (Some(renewal), Some(Asker::User(subject))) = (renewal, asker) else {
            return Self::refused(fault);
        };
        Self::Finding { subject: Box::pin(renewal.renewed(subject.clone(), fault)) }
    }

    fn asking<E: Exchange<Future = X>>(asker: &Asker, exchange: &E) -> Self {
        match asker.ask(exchange) {
            Some(token) => Self::Exchanging { token },
            None => Self::Ready,
        }
    }
}

// === impl Asker ===

impl Asker {
    /// `None` for a user without a token.
    fn of(caller: &Caller) -> Option<Self> {
        match caller {
            Caller::Gateway => Some(Self::Gateway),
            Caller::User(identity) => Subject::of(identity).map(Self::User),
        }
    }

    /// A token for the second try, of another subject if the first one turns out to be the reason.
    async fn fresh<X: Exchange>(
        self,
        exchange: Arc<X>,
        renewal: Option<Renewal>,
    ) -> Result<Option<Exchanged>, NoToken> {
        let Some(asked) = self.ask(&*exchange) else { return Ok(None) };
        match (asked.await, self, renewal) {
            (Ok(token), _, _) => Ok(Some(token)),
            (Err(fault), Self::User(subject), Some(renewal)) => {
                let subject = renewal.renewed(subject, fault).await?;
                Ok(Some(exchange.exchange(subject).await?))
            }
            (Err(fault), _, _) => Err(fault.into()),
        }
    }

    /// `None` for the gateway alone.
    fn ask<X: Exchange>(&self, exchange: &X) -> Option<X::Future> {
        match self {
            Self::Gateway => exchange.own(),
            Self::User(subject) => Some(exchange.exchange(subject.clone())),
        }
    }
}

/// The second and last try.
async fn send_again<S, B, T>(
    mut inner: S,
    mut request: Request<B>,
    token: T,
    header: HeaderName,
) -> Result<S::Response, BoxError>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
    T: Future<Output = Result<Option<Exchanged>, NoToken>>,
{
    match token.await {
        Ok(Some(token)) => _ = request.headers_mut().insert(header, token.value().clone()),
        Ok(None) => {}
        Err(fault) => return Err(no_token(Some(&((), request)), fault)),
    }
    poll_fn(|cx| inner.poll_ready(cx)).await.map_err(Into::into)?;
    inner.call(request).await.map_err(Into::into)
}

fn no_token<S, B>(held: Option<&(S, Request<B>)>, fault: NoToken) -> BoxError {
    match fault {
        NoToken::Exchange(fault) => {
            failed(held, CredentialFault::from(&fault), Some(Box::new(fault)))
        }
        NoToken::Subject(fault) => failed(held, fault, None),
    }
}

fn failed<S, B>(
    held: Option<&(S, Request<B>)>,
    fault: CredentialFault,
    source: Option<BoxError>,
) -> BoxError {
    let backend = held.and_then(|(_, request)| request.extensions().get::<Backend>().cloned());
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
