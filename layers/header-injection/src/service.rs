//! The middleware and its response future.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{AUTHORIZATION, HeaderName, PROXY_AUTHORIZATION};
use http::{HeaderValue, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_service::Service;
use vmcp_core::{Backend, BoxError, Caller, CredentialError, CredentialErrorKind, RetryPolicy};

use crate::{CredentialProvider, HeaderInjectionLayer};

/// Middleware that puts a credential into a request header. See the [crate docs](crate) for an example.
#[derive(Debug)]
pub struct HeaderInjection<S, C, A> {
    inner: S,
    layer: HeaderInjectionLayer<C, A>,
}

/// Response extension of a 401 for an upstream token: the backend rejected the token. With
/// [`retry_on_unauthorized`](HeaderInjectionLayer::retry_on_unauthorized), it rejected the fresh token too, or there
/// was none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRejected {
    /// The provider of the token.
    pub provider: Arc<str>,
}

pin_project! {
    /// Response future of [`HeaderInjection`]. It allocates only for a retry.
    pub struct ResponseFuture<S, C, A, B>
    where
        S: Service<Request<B>>,
        C: CredentialProvider,
    {
        #[pin]
        state: FutureState<C::Future, S::Future, S::Response>,
        // Clones of the service and the request; `None` from the last attempt on.
        pending_request: Option<(S, Request<B>)>,
        value: Option<HeaderValue>,
        header: HeaderName,
        provider: Option<Arc<str>>,
        credentials: Arc<C>,
        retry: A,
    }
}

pin_project! {
    #[project = StateProjection]
    enum FutureState<V, F, R> {
        Resolving { #[pin] value: V },
        Calling { #[pin] response: F },
        Retrying { response: Pin<Box<dyn Future<Output = Result<R, BoxError>> + Send>> },
    }
}

// === impl HeaderInjection ===

impl<S, C, A> HeaderInjection<S, C, A> {
    pub(crate) fn new(inner: S, layer: HeaderInjectionLayer<C, A>) -> Self {
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
    C: CredentialProvider,
    A: RetryPolicy<B>,
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
        // The instance that was polled ready is called; a clone replaces it.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let HeaderInjectionLayer { credentials, header, retry } = &self.layer;
        let value = credentials.value(request.extensions().get::<Caller>());
        ResponseFuture {
            state: FutureState::Resolving { value },
            pending_request: Some((inner, request)),
            value: None,
            header: header.name().clone(),
            provider: credentials.provider().cloned(),
            credentials: Arc::clone(credentials),
            retry: retry.clone(),
        }
    }
}

// === impl ResponseFuture ===

impl<S, C, A, B, R> Future for ResponseFuture<S, C, A, B>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    C: CredentialProvider,
    A: RetryPolicy<B>,
    B: Send + 'static,
    R: Send + 'static,
{
    type Output = Result<Response<R>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProjection::Resolving { value } => {
                    let value = ready!(value.poll(cx));
                    let (mut inner, mut request) =
                        this.pending_request.take().expect("future polled after completion");
                    let value = match value {
                        Ok(value) => value,
                        Err(fault) => return Poll::Ready(Err(credential_error(&request, fault))),
                    };
                    let headers = request.headers_mut();
                    // The client's credentials for the gateway are not meant for backends.
                    headers.remove(AUTHORIZATION);
                    headers.remove(PROXY_AUTHORIZATION);
                    let mut copy = None;
                    if let Some(value) = value {
                        // Only an upstream token can be replaced by another one.
                        if this.provider.is_some() {
                            copy = this.retry.clone_request(&request);
                            *this.value = Some(value.clone());
                        }
                        request.headers_mut().insert(this.header.clone(), value);
                    } else {
                        headers.remove(&*this.header);
                        *this.provider = None;
                    }
                    let response = inner.call(request);
                    *this.pending_request = copy.map(|copy| (inner, copy));
                    this.state.set(FutureState::Calling { response });
                }
                StateProjection::Calling { response } => {
                    let mut response = ready!(response.poll(cx)).map_err(Into::into)?;
                    if response.status() != StatusCode::UNAUTHORIZED {
                        return Poll::Ready(Ok(response));
                    }
                    let Some(provider) = this.provider.take() else {
                        return Poll::Ready(Ok(response));
                    };
                    mark_token_rejected(&mut response, provider);
                    let (Some((inner, request)), Some(rejected_value)) =
                        (this.pending_request.take(), this.value.take())
                    else {
                        return Poll::Ready(Ok(response));
                    };
                    let caller = request.extensions().get::<Caller>();
                    let Some(value) = this.credentials.refresh(caller, &rejected_value) else {
                        return Poll::Ready(Ok(response));
                    };
                    let first = (response, this.header.clone());
                    let retry = send_retry(inner, request, value, first);
                    this.state.set(FutureState::Retrying { response: Box::pin(retry) });
                }
                StateProjection::Retrying { response } => return response.as_mut().poll(cx),
            }
        }
    }
}

/// Retries the request once with a fresh credential; without one, returns the first response.
async fn send_retry<S, B, R, V>(
    mut inner: S,
    mut request: Request<B>,
    value: V,
    (rejected_response, header): (Response<R>, HeaderName),
) -> Result<Response<R>, BoxError>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    V: Future<Output = Result<Option<HeaderValue>, CredentialErrorKind>>,
{
    let value = match value.await {
        Ok(Some(value)) => value,
        Ok(None) => return Ok(rejected_response),
        Err(fault) => return Err(credential_error(&request, fault)),
    };
    request.headers_mut().insert(header, value);
    let provider = rejected_response.extensions().get::<TokenRejected>().cloned();
    // Frees the connection before the retry needs one.
    drop(rejected_response);
    poll_fn(|cx| inner.poll_ready(cx)).await.map_err(Into::into)?;
    let mut response = inner.call(request).await.map_err(Into::into)?;
    if response.status() == StatusCode::UNAUTHORIZED
        && let Some(TokenRejected { provider }) = provider
    {
        mark_token_rejected(&mut response, provider);
    }
    Ok(response)
}

fn mark_token_rejected<R>(response: &mut Response<R>, provider: Arc<str>) {
    response.extensions_mut().insert(TokenRejected { provider });
}

impl<S, C, A, B> fmt::Debug for ResponseFuture<S, C, A, B>
where
    S: Service<Request<B>>,
    C: CredentialProvider,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

fn credential_error<B>(request: &Request<B>, kind: CredentialErrorKind) -> BoxError {
    let backend = request.extensions().get::<Backend>().cloned();
    let backend = backend.unwrap_or_else(|| Backend::new("(unnamed)"));
    Box::new(CredentialError { backend, kind, source: None })
}

#[cfg(test)]
mod tests;
