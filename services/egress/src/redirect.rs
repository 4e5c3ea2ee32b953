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

/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 5;

/// Layer that applies [`Redirect`].
#[derive(Clone, Debug)]
pub struct RedirectLayer {
    origin: Arc<Origin>,
}

/// Middleware that follows 307 and 308 within the origin, at most 5 times, with the same method,
/// headers and body (RFC 9110, 15.4.8 and 15.4.9).
///
/// 301, 302 and 303 would turn a POST into a GET, and another origin must not receive the request.
/// These responses become [`Error::Redirected`], which contains only the origin. Other responses
/// pass unchanged.
///
/// Place it outside of layers that add credentials, so that a signature covers the new path.
#[derive(Clone, Debug)]
pub struct Redirect<S> {
    inner: S,
    origin: Arc<Origin>,
}

pin_project! {
    /// Future of [`Redirect`].
    pub struct RedirectFuture<S, F> {
        inner: S,
        origin: Arc<Origin>,
        // Request for the next URL, if the response is a redirect.
        next_request: Request<Full<Bytes>>,
        followed: usize,
        #[pin]
        step: Step<F>,
    }
}

pin_project! {
    #[project = StepPinned]
    enum Step<F> {
        /// Waiting for the response.
        AwaitingResponse { #[pin] future: F },
        /// Waiting for the inner service to become ready for the next URL.
        AwaitingReady,
    }
}

impl RedirectLayer {
    /// Creates a layer that follows redirects within `origin`.
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
    /// Creates a service that follows redirects of `inner` within `origin`.
    pub fn new(inner: S, origin: Origin) -> Self {
        Self { inner, origin: Arc::new(origin) }
    }

    /// Returns a reference to the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service.
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
        // For further requests: the clone is polled ready before it is called.
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
                    // Release the connection of this response before the next request needs one.
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

/// Returns the target of a redirect; `None` for other responses.
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
    // For a hidden origin, hide the target as well: most redirects lead to the same host.
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
        return reject(None, "the Location is missing or invalid");
    };
    let Ok(to) = Origin::of(&target) else {
        return reject(None, "the Location is not an http or https URL without user info");
    };
    if !keeps_method {
        return reject(
            Some(to),
            "only 307 and 308 keep the method and the body; configure the URL that it leads to",
        );
    }
    if to != *origin {
        return reject(Some(to), "it leads to another origin; configure the URL there");
    }
    if followed >= MAX_REDIRECTS {
        return reject(Some(to), "too many redirects");
    }
    match target[url::Position::BeforePath..url::Position::AfterQuery].parse() {
        Ok(uri) => Ok(Some(uri)),
        Err(_) => reject(Some(to), "the Location is invalid"),
    }
}
