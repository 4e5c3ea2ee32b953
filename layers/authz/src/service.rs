//! The middleware: permissions on the way in, lists on the way out.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HeaderName};
use http::{Method, Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;
use vmcp_core::{Authorizer, BoxError, CallerPermissions, Generation, Identity, Item, McpRequest};
use vmcp_core::{Decision, Fingerprint, Rejection, RequestContext};

use crate::filter::{ListFilter, is_filtered_or_rejected};
use crate::gate::{self, GateOutcome};
use crate::{AuthorizationLayer, PermissionsFuture, Policy};

/// Event id after which a client wants to resume a stream (MCP, Transports, Resumability).
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Authorization middleware. See the [crate docs](crate) for an example.
///
/// The future is boxed only to await permissions and to filter a list.
pub struct Authorization<S, P> {
    inner: S,
    layer: AuthorizationLayer<P>,
}

type BoxFuture<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

pin_project! {
    /// Response future of [`Authorization`].
    pub struct ResponseFuture<F, R, E> {
        #[pin]
        state: FutureState<F, R, E>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum FutureState<F, R, E> {
        // The inner service responds. A list that it did not filter is rejected.
        Inner { #[pin] inner: F, list: Option<Bytes> },
        Rejected { response: Option<Response<R>> },
        BoxFuture { boxed: BoxFuture<Response<R>, E> },
    }
}

/// Treatment of a request.
enum RequestStep {
    Pass,
    /// Forward; the response is a list that must be marked as filtered. Contains the request id.
    ExpectFiltered(Bytes),
    /// Forward, and filter the list in the response.
    Filter(CallerPermissions, Bytes),
    Reject(Rejection, Option<Bytes>),
}

/// Authorizer that hides and denies everything, for a policy that failed.
struct DenyAll;

// === impl Authorization ===

impl<S, P> Authorization<S, P> {
    pub(crate) fn new(inner: S, layer: AuthorizationLayer<P>) -> Self {
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

impl<S, P, B, R> Service<Request<B>> for Authorization<S, P>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    P: Policy,
    B: Send + 'static,
    R: http_body::Body<Data = Bytes> + From<Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let identity = request.extensions().get::<Identity>().cloned();
        let identity = identity.unwrap_or_else(Identity::anonymous);
        let step = match self.layer.policy().permissions(&identity, self.layer.epoch()) {
            PermissionsFuture::Ready(permissions) => self.layer.step(&mut request, Ok(permissions)),
            PermissionsFuture::Pending(permissions) => {
                let (mut inner, layer) = (self.take_ready(), self.layer.clone());
                let boxed = Box::pin(async move {
                    let step = layer.step(&mut request, permissions.await);
                    layer.run(&mut inner, request, step).await
                });
                return FutureState::BoxFuture { boxed }.into();
            }
        };
        let state = match step {
            RequestStep::Pass => FutureState::Inner { inner: self.inner.call(request), list: None },
            RequestStep::ExpectFiltered(id) => {
                FutureState::Inner { inner: self.inner.call(request), list: Some(id) }
            }
            RequestStep::Reject(rejection, id) => {
                FutureState::Rejected { response: Some(rejection.into_response(id.as_deref())) }
            }
            step @ RequestStep::Filter(..) => {
                let (mut inner, layer) = (self.take_ready(), self.layer.clone());
                let boxed = Box::pin(async move { layer.run(&mut inner, request, step).await });
                FutureState::BoxFuture { boxed }
            }
        };
        state.into()
    }
}

impl<S: Clone, P> Authorization<S, P> {
    /// Takes the instance that is ready and leaves a clone.
    fn take_ready(&mut self) -> S {
        let clone = self.inner.clone();
        mem::replace(&mut self.inner, clone)
    }
}

// === impl AuthorizationLayer ===

impl<P: Policy> AuthorizationLayer<P> {
    /// Inserts the permissions into the request, and checks them unless that is delegated.
    fn step<B>(
        &self,
        request: &mut Request<B>,
        permissions: Result<CallerPermissions, Rejection>,
    ) -> RequestStep {
        let (permissions, failure) = match permissions {
            Ok(permissions) => (permissions, None),
            Err(failure) => (CallerPermissions::new(DenyAll), Some(failure)),
        };
        let extensions = request.extensions();
        let step = match extensions.get::<McpRequest>() {
            Some(message) => self.decide(message, &permissions, failure, extensions.get()),
            // Misconfigured stack.
            None if self.annotations().is_some() && request.method() == Method::POST => {
                tracing::error!(
                    "AuthorizationLayer responds with 500: no vmcp_core::McpRequest found; \
                     put vmcp_decode::DecodeLayer, or a layer that inserts one, outside of it"
                );
                RequestStep::Reject(Rejection::internal(), None)
            }
            None => RequestStep::Pass,
        };
        if self.annotations().is_some() {
            let headers = request.headers_mut();
            // A resumed stream could replay a list past the filter; a new stream cannot.
            headers.remove(LAST_EVENT_ID);
            if let RequestStep::Filter(..) = step {
                headers.remove(ACCEPT_ENCODING);
            }
        }
        request.extensions_mut().insert(permissions);
        step
    }

    fn decide(
        &self,
        message: &McpRequest,
        permissions: &CallerPermissions,
        failure: Option<Rejection>,
        request_context: Option<&RequestContext>,
    ) -> RequestStep {
        let method = message.method();
        let id = || message.id().map(Bytes::copy_from_slice);
        // Unavailable permissions concern only the methods that depend on them.
        if let Some(failure) = failure.filter(|_| gate::requires_permissions(&method)) {
            return RequestStep::Reject(failure, id());
        }
        let Some(annotations) = self.annotations() else {
            let list = gate::is_list_method(&method).then(|| id().unwrap_or_default());
            return list.map_or(RequestStep::Pass, RequestStep::ExpectFiltered);
        };
        match gate::check_message(message, permissions, annotations) {
            Ok(GateOutcome::List) => {
                RequestStep::Filter(permissions.clone(), id().unwrap_or_default())
            }
            Ok(GateOutcome::Other) => RequestStep::Pass,
            Err(rejected) => {
                if let (Some(reason), Some(request_context)) = (rejected.denied, request_context) {
                    request_context.record_denied(reason);
                }
                let stateful = message.generation == Generation::Stateful;
                let rejection = rejected.rejection;
                RequestStep::Reject(
                    if stateful { rejection.for_stateful_client() } else { rejection },
                    id(),
                )
            }
        }
    }

    async fn run<S, B, R>(
        &self,
        inner: &mut S,
        request: Request<B>,
        step: RequestStep,
    ) -> Result<Response<R>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>>,
        R: http_body::Body<Data = Bytes> + From<Bytes>,
        R::Error: Into<BoxError>,
    {
        match step {
            RequestStep::Pass => inner.call(request).await,
            RequestStep::ExpectFiltered(id) => {
                inner.call(request).await.map(|response| require_filtered(response, &id))
            }
            RequestStep::Reject(rejection, id) => Ok(rejection.into_response(id.as_deref())),
            RequestStep::Filter(permissions, id) => {
                let response = inner.call(request).await?;
                let Some(annotations) = self.annotations() else { return Ok(response) };
                let filter = ListFilter { permissions: &permissions, annotations, id: &id };
                Ok(filter.filter(response).await)
            }
        }
    }
}

/// Replaces a list that is not marked as filtered with an internal error.
fn require_filtered<R: From<Bytes>>(response: Response<R>, id: &[u8]) -> Response<R> {
    if is_filtered_or_rejected(&response) || !response.status().is_success() {
        return response;
    }
    tracing::error!("list rejected: the inner service did not mark it as filtered");
    Rejection::internal().into_response(Some(id))
}

// === impl ResponseFuture ===

impl<F, R, E> From<FutureState<F, R, E>> for ResponseFuture<F, R, E> {
    fn from(state: FutureState<F, R, E>) -> Self {
        Self { state }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: From<Bytes>,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Inner { inner, list } => {
                let response = ready!(inner.poll(cx));
                Poll::Ready(match list.take() {
                    Some(id) => response.map(|response| require_filtered(response, &id)),
                    None => response,
                })
            }
            StateProjection::Rejected { response } => {
                Poll::Ready(Ok(response.take().expect("future polled after completion")))
            }
            StateProjection::BoxFuture { boxed } => boxed.as_mut().poll(cx),
        }
    }
}

// === impl DenyAll ===

impl Authorizer for DenyAll {
    fn is_visible(&self, _: &Item<'_>) -> bool {
        false
    }

    fn authorize(&self, _: &Item<'_>, _: Option<&[u8]>) -> Decision {
        Decision::Hide
    }

    fn visibility_key(&self) -> Fingerprint {
        Fingerprint([0; 16])
    }

    fn reads_backend(&self) -> bool {
        false
    }
}

impl<S: Clone, P> Clone for Authorization<S, P> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S: fmt::Debug, P> fmt::Debug for Authorization<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inner, layer } = self;
        f.debug_struct("Authorization").field("inner", inner).field("layer", layer).finish()
    }
}

impl<F, R, E> fmt::Debug for ResponseFuture<F, R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}

#[cfg(test)]
mod tests;
