//! Middleware that follows redirects within one origin.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;
use url::Url;
use vmcp_core::BoxError;

use crate::{Error, Origin};

/// How many redirects of one request are followed.
const MAX_REDIRECTS: usize = 5;

/// Adds [`Redirect`] to a service.
#[derive(Clone, Debug)]
pub struct RedirectLayer {
    origin: Arc<Origin>,
}

/// Follows 307 and 308 within the origin, at most 5 of them, with the same method, headers and
/// body (RFC 9110, 15.4.8 and 15.4.9).
///
/// 301, 302 and 303 would turn a POST into a GET, and another origin must not see what was meant
/// for this one: those answers become [`Error::Redirected`], which names the origin only. All
/// other answers pass.
///
/// It belongs outside of what adds credentials, so that a signature covers the new path.
#[derive(Clone, Debug)]
pub struct Redirect<S> {
    inner: S,
    origin: Arc<Origin>,
}

pin_project! {
    /// What [`Redirect`] answers.
    pub struct RedirectFuture<S, F> {
        inner: S,
        origin: Arc<Origin>,
        // What is sent to the next place, if the answer names one.
        next_request: Request<Full<Bytes>>,
        followed: usize,
        #[pin]
        step: Step<F>,
    }
}

pin_project! {
    #[project = StepPinned]
    enum Step<F> {
        /// The answer is awaited.
        AwaitingResponse { #[pin] future: F },
        /// The next place is known, and the inner service is not ready yet.
        AwaitingReady,
    }
}

impl RedirectLayer {
    /// Redirects are followed within `origin`.
    #[must_use]
    pub fn new(origin: Origin) -> Self {
        Self { origin: Arc::new(origin) }
    }
}

impl<S> Layer<S> for RedirectLayer {
    type Service = Redirect<S>;

    fn layer(&self, inner: S) -> Redirect<S> {
        Redirect { inner, origin: Arc::clone(&self.origin) }
    }
}

impl<S> Redirect<S> {
    /// Follows redirects of `inner` within `origin`.
    pub fn new(inner: S, origin: Origin) -> Self {
        Self { inner, origin: Arc::new(origin) }
    }

    /// The service whose redirects are followed.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The service whose redirects are followed.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B> Service<Request<Full<Bytes>>> for Redirect<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = RedirectFuture<S, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        // For the places that follow: it is polled ready before it is asked.
        let inner = self.inner.clone();
        let next_request = request.clone();
        let step = Step::AwaitingResponse { future: self.inner.call(request) };
        RedirectFuture { inner, origin: Arc::clone(&self.origin), next_request, followed: 0, step }
    }
}

impl<S, B> Future for RedirectFuture<S, S::Future>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    type Output = Result<Response<B>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.step.as_mut().project() {
                StepPinned::AwaitingResponse { future } => {
                    let response = ready!(future.poll(cx)).map_err(Into::into)?;
                    let requested = this.next_request.uri();
                    let next = destination(this.origin, requested, &response, *this.followed)?;
                    let Some(uri) = next else { return Poll::Ready(Ok(response)) };
                    *this.followed += 1;
                    *this.next_request.uri_mut() = uri;
                    // Here the response gives its connection back, before another one is asked for.
                    drop(response);
                    this.step.set(Step::AwaitingReady);
                }
                StepPinned::AwaitingReady => {
                    ready!(this.inner.poll_ready(cx)).map_err(Into::into)?;
                    let future = this.inner.call(this.next_request.clone());
                    this.step.set(Step::AwaitingResponse { future });
                }
            }
        }
    }
}

impl<S, F> fmt::Debug for RedirectFuture<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedirectFuture")
            .field("origin", &self.origin)
            .field("followed", &self.followed)
            .finish_non_exhaustive()
    }
}

/// Where the response sends the request, if anywhere.
fn destination<B>(
    origin: &Origin,
    requested: &Uri,
    response: &Response<B>,
    followed: usize,
) -> Result<Option<Uri>, Error> {
    let keeps_method = match response.status() {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => false,
        _ => return Ok(None),
    };
    // Of a hidden origin another one tells too much: most redirects lead to the same host.
    let reject = |to: Option<Origin>, reason| {
        Err(Error::Redirected { to: to.filter(|_| !origin.is_hidden()), reason })
    };
    let path = requested.path_and_query().map_or("/", |path| path.as_str());
    let target = response
        .headers()
        .get(header::LOCATION)
        .and_then(|location| location.to_str().ok())
        .and_then(|location| {
            Url::parse(&format!("{}{path}", origin.url())).ok()?.join(location).ok()
        });
    let Some(target) = target else {
        return reject(None, "it has no valid Location");
    };
    let Ok(to) = Origin::of(&target) else {
        return reject(None, "its Location is no http or https URL without user info");
    };
    if !keeps_method {
        return reject(
            Some(to),
            "only 307 and 308 keep the method and the body: configure the URL that it leads to",
        );
    }
    if to != *origin {
        return reject(Some(to), "it leads to another origin: configure the URL there");
    }
    if followed >= MAX_REDIRECTS {
        return reject(Some(to), "there are too many");
    }
    match target[url::Position::BeforePath..url::Position::AfterQuery].parse() {
        Ok(uri) => Ok(Some(uri)),
        Err(_) => reject(Some(to), "it has no valid Location"),
    }
}
