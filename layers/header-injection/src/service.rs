//! Asks for the credential, then sends the request with it.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{AUTHORIZATION, HeaderName, PROXY_AUTHORIZATION};
use http::{HeaderValue, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_service::Service;
use vmcp_core::{Backend, BoxError, Caller, CredentialError, CredentialFault, Resend};

use crate::{Credentials, HeaderInjectionLayer};

/// Puts a credential into a header of what `S` is asked. See the [crate docs](crate) for an example.
#[derive(Debug)]
pub struct HeaderInjection<S, C, A> {
    inner: S,
    layer: HeaderInjectionLayer<C, A>,
}

/// In the extensions of a 401 that answers an upstream provider's token: the backend does not take it. With
/// [`resending`](HeaderInjectionLayer::resending) there was no other one, or it did not take that either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRefused {
    /// The provider whose token it was.
    pub provider: Arc<str>,
}

pin_project! {
    /// Waits for the credential, then for the response. Nothing is boxed while the backend takes it.
    pub struct ResponseFuture<S, C, A, B>
    where
        S: Service<Request<B>>,
        C: Credentials,
    {
        #[pin]
        state: State<C::Future, S::Future, S::Response>,
        // What the request is sent with; gone when it is sent for the last time.
        held: Option<(S, Request<B>)>,
        value: Option<HeaderValue>,
        header: HeaderName,
        provider: Option<Arc<str>>,
        credentials: Arc<C>,
        again: A,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<V, F, R> {
        Asking { #[pin] value: V },
        Sent { #[pin] response: F },
        SentAgain { response: Pin<Box<dyn Future<Output = Result<R, BoxError>> + Send>> },
    }
}

// === impl HeaderInjection ===

impl<S, C, A> HeaderInjection<S, C, A> {
    pub(crate) fn new(inner: S, layer: HeaderInjectionLayer<C, A>) -> Self {
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

impl<S: Clone, C, A: Clone> Clone for HeaderInjection<S, C, A> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, C, A, B, R> Service<Request<B>> for HeaderInjection<S, C, A>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    C: Credentials,
    A: Resend<B>,
    B: Send + 'static,
    R: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = ResponseFuture<S, C, A, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The instance that was polled ready goes; a clone stays.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let HeaderInjectionLayer { credentials, header, again } = &self.layer;
        let value = credentials.value(request.extensions().get::<Caller>());
        ResponseFuture {
            state: State::Asking { value },
            held: Some((inner, request)),
            value: None,
            header: header.name().clone(),
            provider: credentials.provider().cloned(),
            credentials: Arc::clone(credentials),
            again: again.clone(),
        }
    }
}

// === impl ResponseFuture ===

impl<S, C, A, B, R> Future for ResponseFuture<S, C, A, B>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    C: Credentials,
    A: Resend<B>,
    B: Send + 'static,
    R: Send + 'static,
{
    type Output = Result<Response<R>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProjection::Asking { value } => {
                    let value = ready!(value.poll(cx));
                    // Taken once: the state changes, or this future has ended.
                    let Some((mut inner, mut request)) = this.held.take() else {
                        return Poll::Pending;
                    };
                    let value = match value {
                        Ok(value) => value,
                        Err(fault) => return Poll::Ready(Err(failed(&request, fault))),
                    };
                    let headers = request.headers_mut();
                    // What a client sent to the gateway is not for backends.
                    headers.remove(AUTHORIZATION);
                    headers.remove(PROXY_AUTHORIZATION);
                    let mut copy = None;
                    if let Some(value) = value {
                        // What is nobody's token is the same the next time.
                        if this.provider.is_some() {
                            copy = this.again.copy(&request);
                            *this.value = Some(value.clone());
                        }
                        request.headers_mut().insert(this.header.clone(), value);
                    } else {
                        headers.remove(&*this.header);
                        *this.provider = None;
                    }
                    let response = inner.call(request);
                    *this.held = copy.map(|copy| (inner, copy));
                    this.state.set(State::Sent { response });
                }
                StateProjection::Sent { response } => {
                    let mut response = ready!(response.poll(cx)).map_err(Into::into)?;
                    if response.status() != StatusCode::UNAUTHORIZED {
                        return Poll::Ready(Ok(response));
                    }
                    let Some(provider) = this.provider.take() else {
                        return Poll::Ready(Ok(response));
                    };
                    mark(&mut response, provider);
                    let (Some((inner, request)), Some(refused)) =
                        (this.held.take(), this.value.take())
                    else {
                        return Poll::Ready(Ok(response));
                    };
                    let caller = request.extensions().get::<Caller>();
                    let Some(value) = this.credentials.renewed(caller, &refused) else {
                        return Poll::Ready(Ok(response));
                    };
                    let first = (response, this.header.clone());
                    let again = send_again(inner, request, value, first);
                    this.state.set(State::SentAgain { response: Box::pin(again) });
                }
                StateProjection::SentAgain { response } => return response.as_mut().poll(cx),
            }
        }
    }
}

/// The second and last try, if there is another value; else the first one's answer.
async fn send_again<S, B, R, V>(
    mut inner: S,
    mut request: Request<B>,
    value: V,
    (refusal, header): (Response<R>, HeaderName),
) -> Result<Response<R>, BoxError>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    V: Future<Output = Result<Option<HeaderValue>, CredentialFault>>,
{
    let value = match value.await {
        Ok(Some(value)) => value,
        Ok(None) => return Ok(refusal),
        Err(fault) => return Err(failed(&request, fault)),
    };
    request.headers_mut().insert(header, value);
    let provider = refusal.extensions().get::<TokenRefused>().cloned();
    // Gives its connection back before the second try asks for one.
    drop(refusal);
    poll_fn(|cx| inner.poll_ready(cx)).await.map_err(Into::into)?;
    let mut response = inner.call(request).await.map_err(Into::into)?;
    if response.status() == StatusCode::UNAUTHORIZED
        && let Some(TokenRefused { provider }) = provider
    {
        mark(&mut response, provider);
    }
    Ok(response)
}

fn mark<R>(response: &mut Response<R>, provider: Arc<str>) {
    response.extensions_mut().insert(TokenRefused { provider });
}

impl<S, C, A, B> fmt::Debug for ResponseFuture<S, C, A, B>
where
    S: Service<Request<B>>,
    C: Credentials,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

fn failed<B>(request: &Request<B>, fault: CredentialFault) -> BoxError {
    let backend = request.extensions().get::<Backend>().cloned();
    let backend = backend.unwrap_or_else(|| Backend::new("(unnamed)"));
    Box::new(CredentialError { backend, fault, source: None })
}

#[cfg(test)]
mod tests;
