//! Middleware that accepts known hosts and origins only, and handles CORS.
//!
//! A page from any site can make the browser send requests to a server on the same machine. Such requests are
//! recognized by `Host` (DNS rebinding) or `Origin` (MCP 2025-11-25, Streamable HTTP, Security Warning).
//!
//! tower-http writes the CORS headers, once the origin has been checked. Requests of programs bypass it: they have no use
//! for these headers, whose construction takes an allocation for each response.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode, Uri};
use pin_project_lite::pin_project;
use tower_http::cors::{self, CorsLayer};
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::Rejection;

use crate::cors::{expand_requested_headers, is_preflight, mcp_cors, varies_by_origin};
use crate::host_port::HostPort;

/// Layer that applies [`AllowedHosts`].
#[derive(Clone, Debug)]
pub struct AllowedHostsLayer {
    list: Arc<AllowList>,
    check: OriginCheck,
}

#[derive(Clone, Debug)]
struct AllowList {
    /// Hosts besides those of the loopback interface; `None` accepts any host.
    hosts: Option<Vec<String>>,
    /// Hosts that the configuration names as this server's. They extend an allow-list and never create one.
    configured: Vec<String>,
    origins: Vec<String>,
    /// Settings that extend the allow-lists of hosts and origins, for messages.
    settings: Option<(&'static str, &'static str)>,
    cors: CorsLayer,
}

/// Check of origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OriginCheck {
    AllowList,
    Any,
}

/// Middleware that rejects foreign hosts and origins with 403, and lets pages of allowed origins read responses.
#[derive(Clone, Debug)]
pub struct AllowedHosts<S> {
    inner: S,
    layer: AllowedHostsLayer,
}

pin_project! {
    /// Response future of [`AllowedHosts`].
    pub struct AllowedHostsFuture<F, R> {
        #[pin]
        kind: Kind<F, R>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<F, R> {
        Direct {
            #[pin]
            future: F,
        },
        // Boxed: it is several times as large as the others.
        Cors {
            future: Pin<Box<cors::ResponseFuture<F>>>,
            is_preflight: bool,
        },
        Rejected {
            response: Option<Response<R>>,
        },
    }
}

impl AllowedHostsLayer {
    /// Creates a layer for a server on loopback. It accepts loopback names and `hosts`.
    #[must_use]
    pub fn loopback(hosts: Vec<String>, origins: Vec<String>) -> Self {
        Self::new(Some(hosts), origins)
    }

    /// Creates a layer for a server on a network address. It accepts any host, or only `hosts` if the list is not
    /// empty. Without an allow-list, same-origin pages need HTTPS or an IP literal: DNS rebinding can point any
    /// plain-HTTP host name here.
    #[must_use]
    pub fn network(hosts: Vec<String>, origins: Vec<String>) -> Self {
        Self::new((!hosts.is_empty()).then_some(hosts), origins)
    }

    fn new(hosts: Option<Vec<String>>, origins: Vec<String>) -> Self {
        let (configured, cors) = (Vec::new(), mcp_cors());
        let list = AllowList { hosts, configured, origins, settings: None, cors };
        Self { list: Arc::new(list), check: OriginCheck::AllowList }
    }

    /// Returns a layer whose rejections name the settings that extend the allow-lists of hosts and origins.
    #[must_use]
    pub fn with_setting_names(mut self, hosts: &'static str, origins: &'static str) -> Self {
        Arc::make_mut(&mut self.list).settings = Some((hosts, origins));
        self
    }

    /// Returns a layer that also accepts the hosts of `configured`, which the configuration names as this server's.
    #[must_use]
    pub fn with_configured_hosts(mut self, configured: Vec<String>) -> Self {
        Arc::make_mut(&mut self.list).configured = configured;
        self
    }

    /// Returns the layer for a listener on loopback, which rejects unknown hosts even without an allow-list.
    #[must_use]
    pub fn on_loopback(mut self) -> Self {
        Arc::make_mut(&mut self.list).hosts.get_or_insert_default();
        self
    }

    /// Returns a layer with the same hosts that leaves origins and CORS to the inner service.
    #[must_use]
    pub fn with_any_origin(mut self) -> Self {
        self.check = OriginCheck::Any;
        self
    }

    /// Checks the host and the origin of a request.
    ///
    /// # Errors
    /// Returns a 403 for a host or origin that is not allowed.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Rejection> {
        let host = self.host(uri, headers)?;
        if !self.serves(host) {
            return Err(self.host_not_allowed());
        }
        if self.check == OriginCheck::Any {
            return Ok(());
        }
        let Some(origin) = single_value(headers, &header::ORIGIN) else { return Ok(()) };
        let origin = origin.map_err(|_more| self.origin_not_allowed())?;
        let text = origin.to_str().unwrap_or_default();
        if self.list.origins.iter().any(|known| known.eq_ignore_ascii_case(text) || known == "*") {
            return Ok(());
        }
        let (scheme, page) = text.split_once("://").unwrap_or_default();
        // Origins of other schemes, such as extensions, have no host in the sense of this check.
        let is_page = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
        match is_page.then(|| HostPort::parse(page)).flatten() {
            Some(page)
                if self.is_same_origin(scheme, page, host)
                    || page.is_loopback() && host.is_loopback() =>
            {
                Ok(())
            }
            _ => Err(self.origin_not_allowed()),
        }
    }

    /// Checks the host as [`check`](Self::check) does, but not the origin, and accepts IP literals, which DNS rebinding
    /// cannot forge. For endpoints that programs request by address.
    ///
    /// # Errors
    /// Returns a 403 for a host name that is not allowed.
    pub fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Rejection> {
        let host = self.host(uri, headers)?;
        let is_allowed = self.serves(host) || host.address().is_some();
        if is_allowed { Ok(()) } else { Err(self.host_not_allowed()) }
    }

    /// Returns the host of a request (RFC 9112, 3.2).
    fn host<'a>(&self, uri: &'a Uri, headers: &'a HeaderMap) -> Result<HostPort<'a>, Rejection> {
        let host = match single_value(headers, &header::HOST) {
            Some(host) => {
                host.map_err(|_more| self.host_not_allowed())?.to_str().unwrap_or_default()
            }
            None => uri.authority().map(http::uri::Authority::as_str).unwrap_or_default(),
        };
        // An absolute request target must name the same host as the header.
        let is_other = |named: &http::uri::Authority| !named.as_str().eq_ignore_ascii_case(host);
        if uri.authority().is_some_and(is_other) {
            return Err(self.host_not_allowed());
        }
        HostPort::parse(host).ok_or_else(|| self.host_not_allowed())
    }

    fn serves(&self, host: HostPort<'_>) -> bool {
        let Some(hosts) = &self.list.hosts else { return true };
        host.is_loopback()
            || hosts.iter().chain(&self.list.configured).any(|known| host.matches(known))
    }

    /// Returns `true` if the page is of the same origin, under a host that DNS rebinding cannot have forged.
    fn is_same_origin(&self, scheme: &str, page: HostPort<'_>, host: HostPort<'_>) -> bool {
        let trusted = self.list.hosts.is_some()
            || scheme.eq_ignore_ascii_case("https")
            || host.address().is_some()
            || self.list.configured.iter().any(|known| host.matches(known));
        trusted && page.text.eq_ignore_ascii_case(host.text)
    }

    fn host_not_allowed(&self) -> Rejection {
        let setting = self.list.settings.map(|(hosts, _)| hosts);
        rejection("this Host is not served here", setting)
    }

    fn origin_not_allowed(&self) -> Rejection {
        let setting = self.list.settings.map(|(_, origins)| origins);
        rejection("this Origin is not served here", setting)
    }
}

fn rejection(message: &'static str, setting: Option<&'static str>) -> Rejection {
    match setting {
        Some(setting) => Rejection::host_not_allowed(format!("{message}: see {setting}")),
        None => Rejection::host_not_allowed(message),
    }
}

/// Returns the only value of a header, an error for more than one, `None` if it is absent.
fn single_value<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Option<Result<&'a HeaderValue, ()>> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    Some(if all.next().is_some() { Err(()) } else { Ok(first) })
}

impl<S> Layer<S> for AllowedHostsLayer {
    type Service = AllowedHosts<S>;

    fn layer(&self, inner: S) -> AllowedHosts<S> {
        AllowedHosts { inner, layer: self.clone() }
    }
}

impl<S> AllowedHosts<S> {
    /// Returns a reference to the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Consumes `self`, returning the inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R> Service<Request<B>> for AllowedHosts<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes> + Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = AllowedHostsFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Self { inner, layer } = self;
        let kind = match layer.check(request.uri(), request.headers()) {
            Err(rejection) => Kind::Rejected { response: Some(rejection.into_response(None)) },
            Ok(()) if layer.check == OriginCheck::AllowList && varies_by_origin(&request) => {
                let is_preflight = is_preflight(&request);
                if is_preflight {
                    expand_requested_headers(request.headers_mut());
                }
                let future = Box::pin(layer.list.cors.layer(inner).call(request));
                Kind::Cors { future, is_preflight }
            }
            Ok(()) => Kind::Direct { future: inner.call(request) },
        };
        AllowedHostsFuture { kind }
    }
}

impl<F, R, E> Future for AllowedHostsFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Default,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().kind.project() {
            KindProjection::Direct { future } => future.poll(cx),
            KindProjection::Cors { future, is_preflight } => {
                let mut response = ready!(future.as_mut().poll(cx))?;
                if *is_preflight {
                    // tower-http sends 200, without a body.
                    *response.status_mut() = StatusCode::NO_CONTENT;
                }
                Poll::Ready(Ok(response))
            }
            KindProjection::Rejected { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending,
            },
        }
    }
}

impl<F, R> fmt::Debug for AllowedHostsFuture<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllowedHostsFuture").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
