//! Asks for the credential, then sends the request with it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{AUTHORIZATION, HeaderName, PROXY_AUTHORIZATION};
use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_service::Service;
use vmcp_core::{Backend, BoxError, Caller, CredentialError, CredentialFault};

use crate::{Credentials, HeaderInjectionLayer};

/// Puts a credential into a header of what `S` is asked. See the [crate docs](crate) for an example.
#[derive(Debug)]
pub struct HeaderInjection<S, C> {
    inner: S,
    layer: HeaderInjectionLayer<C>,
}

/// In the extensions of a 401 that answers an upstream provider's token: the backend does not take
/// it, and a fresh one may help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRefused {
    /// The provider whose token it was.
    pub provider: Arc<str>,
}

pin_project! {
    /// Waits for the credential, then for the response.
    pub struct ResponseFuture<S, B, C>
    where
        S: Service<Request<B>>,
        C: Credentials,
    {
        #[pin]
        state: State<S, B, C::Future, S::Future>,
        header: HeaderName,
        provider: Option<Arc<str>>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B, V, F> {
        Asking { #[pin] value: V, held: Option<(S, Request<B>)> },
        Sent { #[pin] response: F },
    }
}

// === impl HeaderInjection ===

impl<S, C> HeaderInjection<S, C> {
    pub(crate) fn new(inner: S, layer: HeaderInjectionLayer<C>) -> Self {
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

impl<S: Clone, C> Clone for HeaderInjection<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, C, B, R> Service<Request<B>> for HeaderInjection<S, C>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    C: Credentials,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = ResponseFuture<S, B, C>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The instance that was polled ready goes; a clone stays.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let HeaderInjectionLayer { credentials, header } = &self.layer;
        let value = credentials.value(request.extensions().get::<Caller>());
        ResponseFuture {
            state: State::Asking { value, held: Some((inner, request)) },
            header: header.name().clone(),
            provider: credentials.provider().cloned(),
        }
    }
}

// === impl ResponseFuture ===

impl<S, B, C, R> Future for ResponseFuture<S, B, C>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    C: Credentials,
{
    type Output = Result<Response<R>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProjection::Asking { value, held } => {
                    let value = ready!(value.poll(cx));
                    // Taken once: the state changes, or this future has ended.
                    let Some((mut inner, mut request)) = held.take() else {
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
                    if let Some(value) = value {
                        headers.insert(this.header.clone(), value);
                    } else {
                        headers.remove(&*this.header);
                        *this.provider = None;
                    }
                    let response = inner.call(request);
                    this.state.set(State::Sent { response });
                }
                StateProjection::Sent { response } => {
                    let mut response = ready!(response.poll(cx)).map_err(Into::into)?;
                    if response.status() == StatusCode::UNAUTHORIZED
                        && let Some(provider) = this.provider.take()
                    {
                        response.extensions_mut().insert(TokenRefused { provider });
                    }
                    return Poll::Ready(Ok(response));
                }
            }
        }
    }
}

impl<S, B, C> fmt::Debug for ResponseFuture<S, B, C>
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
