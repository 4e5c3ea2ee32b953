//! The admission on its way in, and lists on their way out.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HeaderName};
use http::{Method, Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;
use vmcp_core::{Admission, Admit, BoxError, Generation, Identity, Item, McpRequest};
use vmcp_core::{Rejection, Trail, Verdict, ViewKey};

use crate::filter::{Sight, trusted};
use crate::gate::{self, Passed};
use crate::{Admitting, AuthorizeLayer, Policy};

/// Which part of a broken stream is wanted once more (MCP, Transports, Resumability).
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Enforces a policy on what goes to `S`, or tells `S` of it. See the [crate docs](crate) for an example.
///
/// The future is boxed where something is awaited: claims that have to be fetched, and lists that are
/// filtered here.
pub struct Authorize<S, P> {
    inner: S,
    layer: AuthorizeLayer<P>,
}

type Boxed<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

pin_project! {
    /// What becomes of a request.
    pub struct ResponseFuture<F, R, E> {
        #[pin]
        stage: Stage<F, R, E>,
    }
}

pin_project! {
    #[project = Staged]
    enum Stage<F, R, E> {
        // The inner service answers. A list that it did not filter is not shown.
        Inner { #[pin] inner: F, list: Option<Bytes> },
        Refused { response: Option<Response<R>> },
        Boxed { boxed: Boxed<Response<R>, E> },
    }
}

/// What to do with a request.
enum Step {
    Pass,
    /// Its answer is a list: what its request's id was.
    Marked(Bytes),
    /// Its answer is a list that has to be filtered.
    Filter(Admission, Bytes),
    Refuse(Rejection, Option<Bytes>),
}

/// Sees nothing and may do nothing: the policy could not be asked.
struct Nothing;

// === impl Authorize ===

impl<S, P> Authorize<S, P> {
    pub(crate) fn new(inner: S, layer: AuthorizeLayer<P>) -> Self {
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

impl<S, P, B, R> Service<Request<B>> for Authorize<S, P>
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
        let step = match self.layer.policy().admission(&identity, self.layer.epoch()) {
            Admitting::Ready(admission) => self.layer.step(&mut request, Ok(admission)),
            Admitting::Later(admission) => {
                let (mut inner, layer) = (self.take(), self.layer.clone());
                let boxed = Box::pin(async move {
                    let step = layer.step(&mut request, admission.await);
                    layer.go(&mut inner, request, step).await
                });
                return Stage::Boxed { boxed }.into();
            }
        };
        let stage = match step {
            Step::Pass => Stage::Inner { inner: self.inner.call(request), list: None },
            Step::Marked(id) => Stage::Inner { inner: self.inner.call(request), list: Some(id) },
            Step::Refuse(refusal, id) => {
                Stage::Refused { response: Some(refusal.into_response(id.as_deref())) }
            }
            step @ Step::Filter(..) => {
                let (mut inner, layer) = (self.take(), self.layer.clone());
                let boxed = Box::pin(async move { layer.go(&mut inner, request, step).await });
                Stage::Boxed { boxed }
            }
        };
        stage.into()
    }
}

impl<S: Clone, P> Authorize<S, P> {
    /// The instance that is ready; a clone stays behind.
    fn take(&mut self) -> S {
        let clone = self.inner.clone();
        mem::replace(&mut self.inner, clone)
    }
}

// === impl AuthorizeLayer ===

impl<P: Policy> AuthorizeLayer<P> {
    /// Puts the admission into the request, and asks it if nobody behind does.
    fn step<B>(&self, request: &mut Request<B>, admission: Result<Admission, Rejection>) -> Step {
        let (admission, failure) = match admission {
            Ok(admission) => (admission, None),
            Err(failure) => (Admission::new(Nothing), Some(failure)),
        };
        let extensions = request.extensions();
        let step = match extensions.get::<McpRequest>() {
            Some(message) => self.decide(message, &admission, failure, extensions.get()),
            // The stack is put together wrongly.
            None if self.learned().is_some() && request.method() == Method::POST => {
                tracing::error!(
                    "AuthorizeLayer found no vmcp_core::McpRequest and answers 500: put vmcp_decode::DecodeLayer, \
                     or a layer that inserts one, outside of it"
                );
                Step::Refuse(Rejection::internal(), None)
            }
            None => Step::Pass,
        };
        if self.learned().is_some() {
            let headers = request.headers_mut();
            // A stream that is resumed could bring a list again, past the filter; a new one cannot.
            headers.remove(LAST_EVENT);
            if let Step::Filter(..) = step {
                headers.remove(ACCEPT_ENCODING);
            }
        }
        request.extensions_mut().insert(admission);
        step
    }

    fn decide(
        &self,
        message: &McpRequest,
        admission: &Admission,
        failure: Option<Rejection>,
        trail: Option<&Trail>,
    ) -> Step {
        let method = message.method();
        let id = || message.id().map(Bytes::copy_from_slice);
        // That the caller is not known now concerns only what depends on it.
        if let Some(failure) = failure.filter(|_| gate::needs_admission(&method)) {
            return Step::Refuse(failure, id());
        }
        let Some(learned) = self.learned() else {
            let list = gate::lists(&method).then(|| id().unwrap_or_default());
            return list.map_or(Step::Pass, Step::Marked);
        };
        match gate::check(message, admission, learned) {
            Ok(Passed::List) => Step::Filter(admission.clone(), id().unwrap_or_default()),
            Ok(Passed::Other) => Step::Pass,
            Err(refused) => {
                if let (Some(reason), Some(trail)) = (refused.denied, trail) {
                    trail.note_denied(reason);
                }
                let stateful = message.generation == Generation::Stateful;
                let refusal = refused.rejection;
                Step::Refuse(if stateful { refusal.for_session() } else { refusal }, id())
            }
        }
    }

    async fn go<S, B, R>(
        &self,
        inner: &mut S,
        request: Request<B>,
        step: Step,
    ) -> Result<Response<R>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>>,
        R: http_body::Body<Data = Bytes> + From<Bytes>,
        R::Error: Into<BoxError>,
    {
        match step {
            Step::Pass => inner.call(request).await,
            Step::Marked(id) => inner.call(request).await.map(|answer| marked(answer, &id)),
            Step::Refuse(refusal, id) => Ok(refusal.into_response(id.as_deref())),
            Step::Filter(admission, id) => {
                let answer = inner.call(request).await?;
                let Some(learned) = self.learned() else { return Ok(answer) };
                let sight = Sight { admission: &admission, learned, id: &id };
                Ok(sight.filter(answer).await)
            }
        }
    }
}

/// A list that the admission was asked about; anything else is not shown.
fn marked<R: From<Bytes>>(answer: Response<R>, id: &[u8]) -> Response<R> {
    if trusted(&answer) || !answer.status().is_success() {
        return answer;
    }
    tracing::error!("a list was not filtered by the service that made it, and is not shown");
    Rejection::internal().into_response(Some(id))
}

// === impl ResponseFuture ===

impl<F, R, E> From<Stage<F, R, E>> for ResponseFuture<F, R, E> {
    fn from(stage: Stage<F, R, E>) -> Self {
        Self { stage }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: From<Bytes>,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().stage.project() {
            Staged::Inner { inner, list } => {
                let answer = ready!(inner.poll(cx));
                Poll::Ready(match list.take() {
                    Some(id) => answer.map(|answer| marked(answer, &id)),
                    None => answer,
                })
            }
            Staged::Refused { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending,
            },
            Staged::Boxed { boxed } => boxed.as_mut().poll(cx),
        }
    }
}

// === impl Nothing ===

impl Admit for Nothing {
    fn visible(&self, _: &Item<'_>) -> bool {
        false
    }

    fn admit(&self, _: &Item<'_>, _: Option<&[u8]>) -> Verdict {
        Verdict::Hidden
    }

    fn view(&self) -> ViewKey {
        ViewKey([0; 16])
    }

    fn reads_backend(&self) -> bool {
        false
    }
}

impl<S: Clone, P> Clone for Authorize<S, P> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S: fmt::Debug, P> fmt::Debug for Authorize<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inner, layer } = self;
        f.debug_struct("Authorize").field("inner", inner).field("layer", layer).finish()
    }
}

impl<F, R, E> fmt::Debug for ResponseFuture<F, R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}

#[cfg(test)]
mod tests;
