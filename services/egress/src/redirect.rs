//! Middleware that follows redirects within one origin.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use tower_layer::Layer;
use tower_service::Service;
use url::Url;
use vmcp_core::BoxError;

use crate::{Error, Origin};

/// How many redirects of one request are followed.
const MAX_REDIRECTS: usize = 5;

/// What [`Redirect`] answers.
pub type RedirectFuture<R> = Pin<Box<dyn Future<Output = Result<R, BoxError>> + Send>>;

/// Adds [`Redirect`] to a service.
#[derive(Clone, Debug)]
pub struct RedirectLayer {
    origin: Origin,
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
    origin: Origin,
}

impl RedirectLayer {
    /// Redirects are followed within `origin`.
    #[must_use]
    pub fn new(origin: Origin) -> Self {
        Self { origin }
    }
}

impl<S> Layer<S> for RedirectLayer {
    type Service = Redirect<S>;

    fn layer(&self, inner: S) -> Redirect<S> {
        Redirect::new(inner, self.origin.clone())
    }
}

impl<S> Redirect<S> {
    /// Follows redirects of `inner` within `origin`.
    pub fn new(inner: S, origin: Origin) -> Self {
        Self { inner, origin }
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
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Send,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = RedirectFuture<Response<B>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        // The instance that was polled ready goes; a clone stays.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let origin = self.origin.clone();
        Box::pin(async move {
            let mut next = request.clone();
            let mut response = inner.call(request).await.map_err(Into::into)?;
            let mut followed = 0;
            while let Some(uri) = destination(&origin, next.uri(), &response, followed)? {
                followed += 1;
                *next.uri_mut() = uri;
                // Gives its connection back before the next request asks for one.
                drop(response);
                poll_fn(|cx| inner.poll_ready(cx)).await.map_err(Into::into)?;
                response = inner.call(next.clone()).await.map_err(Into::into)?;
            }
            Ok(response)
        })
    }
}

/// Where the response sends the request, if anywhere.
fn destination<B>(
    origin: &Origin,
    asked: &Uri,
    response: &Response<B>,
    followed: usize,
) -> Result<Option<Uri>, Error> {
    let keeps_method = match response.status() {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => false,
        _ => return Ok(None),
    };
    let refuse = |to, reason| Err(Error::Redirected { to, reason });
    let path = asked.path_and_query().map_or("/", |path| path.as_str());
    let target = response
        .headers()
        .get(header::LOCATION)
        .and_then(|location| location.to_str().ok())
        .and_then(|location| Url::parse(&format!("{origin}{path}")).ok()?.join(location).ok());
    let Some(target) = target else {
        return refuse(None, "it has no valid Location");
    };
    let Ok(to) = Origin::of(&target) else {
        return refuse(None, "its Location is no http or https URL without user info");
    };
    if !keeps_method {
        return refuse(Some(to), "only 307 and 308 keep the method and the body");
    }
    if to != *origin {
        return refuse(Some(to), "it leads to another origin");
    }
    if followed >= MAX_REDIRECTS {
        return refuse(Some(to), "there are too many");
    }
    match target[url::Position::BeforePath..url::Position::AfterQuery].parse() {
        Ok(uri) => Ok(Some(uri)),
        Err(_) => refuse(Some(to), "it has no valid Location"),
    }
}
