//! Middleware that accepts known hosts and origins only, and handles CORS preflights.
//!
//! A page from any site can make the browser send requests to a server on the same machine. Such requests are
//! recognized by `Host` (DNS rebinding) or `Origin` (MCP 2025-11-25, Streamable HTTP, Security Warning).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::Rejection;

use crate::host_port::HostPort;

const ALLOWED_HEADERS: &str = "authorization, content-type, accept, last-event-id, \
     mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";
const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("mcp-session-id, www-authenticate, retry-after");

/// Layer that applies [`AllowedHosts`].
#[derive(Clone, Debug)]
pub struct AllowedHostsLayer(Arc<AllowList>, OriginCheck);

#[derive(Debug)]
struct AllowList {
    /// Hosts besides those of the loopback interface; `None` accepts any host.
    hosts: Option<Vec<String>>,
    /// Hosts that the configuration names as this server's. They extend an allow-list and never create one.
    configured: Vec<String>,
    origins: Vec<String>,
}

/// Check of origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OriginCheck {
    AllowList,
    Any,
}

/// Middleware that rejects foreign hosts and origins with 403.
#[derive(Clone, Debug)]
pub struct AllowedHosts<S> {
    inner: S,
    layer: AllowedHostsLayer,
}

/// Response future of [`AllowedHosts`].
#[derive(Debug)]
pub enum ResponseFuture<F, R> {
    /// Waits for the inner service. An origin adds CORS headers to the response.
    Calling(F, Option<HeaderValue>),
    /// Rejected without a call of the inner service.
    Immediate(Option<Response<R>>),
}

impl AllowedHostsLayer {
    /// Creates a layer for a server on loopback. It accepts loopback names and `hosts`.
    #[must_use]
    pub fn loopback(hosts: Vec<String>, origins: Vec<String>) -> Self {
        Self(
            Arc::new(AllowList { hosts: Some(hosts), configured: Vec::new(), origins }),
            OriginCheck::AllowList,
        )
    }

    /// Creates a layer for a server on a network address. It accepts any host, or only `hosts` if the list is not
    /// empty. Without an allow-list, same-origin pages need HTTPS or an IP literal: DNS rebinding can point any
    /// plain-HTTP host name here.
    #[must_use]
    pub fn network(hosts: Vec<String>, origins: Vec<String>) -> Self {
        let hosts = (!hosts.is_empty()).then_some(hosts);
        Self(Arc::new(AllowList { hosts, configured: Vec::new(), origins }), OriginCheck::AllowList)
    }

    /// Returns a layer that also accepts the hosts of `configured`, which the configuration names as this server's.
    #[must_use]
    pub fn with_configured_hosts(&self, configured: Vec<String>) -> Self {
        let AllowList { hosts, configured: _, origins } = &*self.0;
        let known = AllowList { hosts: hosts.clone(), configured, origins: origins.clone() };
        Self(Arc::new(known), self.1)
    }

    /// Returns the layer for a listener on loopback, which rejects unknown hosts even without an allow-list.
    #[must_use]
    pub fn on_loopback(&self) -> Self {
        let AllowList { hosts, configured, origins } = &*self.0;
        let hosts = Some(hosts.clone().unwrap_or_default());
        let known = AllowList { hosts, configured: configured.clone(), origins: origins.clone() };
        Self(Arc::new(known), self.1)
    }

    /// Returns a layer with the same hosts that leaves the check of origins to the inner service.
    #[must_use]
    pub fn with_any_origin(self) -> Self {
        Self(self.0, OriginCheck::Any)
    }

    /// Returns the origin that may read the response, if the request names one.
    ///
    /// # Errors
    /// Returns a 403 for a host or origin that is not allowed.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<Option<HeaderValue>, Rejection> {
        let host = Self::host(uri, headers)?;
        if !self.serves(host) {
            return Err(host_not_allowed());
        }
        if self.1 == OriginCheck::Any {
            return Ok(None);
        }
        let Some(origin) = single_value(headers, &header::ORIGIN) else { return Ok(None) };
        let origin_not_allowed =
            || Rejection::host_not_allowed("this Origin is not served here: see --allow-origin");
        let origin = origin.map_err(|_more| origin_not_allowed())?;
        let text = origin.to_str().unwrap_or_default();
        if self.0.origins.iter().any(|known| known.eq_ignore_ascii_case(text) || known == "*") {
            return Ok(Some(origin.clone()));
        }
        let (scheme, page) = text.split_once("://").unwrap_or_default();
        // Origins of other schemes, such as extensions, have no host in the sense of this check.
        let is_page = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
        match is_page.then(|| HostPort::parse(page)).flatten() {
            Some(page)
                if self.is_same_origin(scheme, page, host)
                    || page.is_loopback() && host.is_loopback() =>
            {
                Ok(Some(origin.clone()))
            }
            _ => Err(origin_not_allowed()),
        }
    }

    /// Checks the host as [`check`](Self::check) does, but not the origin, and accepts IP literals, which DNS rebinding
    /// cannot forge. For endpoints that programs request by address.
    ///
    /// # Errors
    /// Returns a 403 for a host name that is not allowed.
    pub fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Rejection> {
        let host = Self::host(uri, headers)?;
        if self.serves(host) || host.address().is_some() { Ok(()) } else { Err(host_not_allowed()) }
    }

    /// Returns the host of a request (RFC 9112, 3.2).
    fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Result<HostPort<'a>, Rejection> {
        let host = match single_value(headers, &header::HOST) {
            Some(host) => host.map_err(|_more| host_not_allowed())?.to_str().unwrap_or_default(),
            None => uri.authority().map(http::uri::Authority::as_str).unwrap_or_default(),
        };
        // An absolute request target must name the same host as the header.
        let is_other = |named: &http::uri::Authority| !named.as_str().eq_ignore_ascii_case(host);
        if uri.authority().is_some_and(is_other) {
            return Err(host_not_allowed());
        }
        HostPort::parse(host).ok_or_else(host_not_allowed)
    }

    fn serves(&self, host: HostPort<'_>) -> bool {
        let Some(hosts) = &self.0.hosts else { return true };
        host.is_loopback()
            || hosts.iter().chain(&self.0.configured).any(|known| host.matches(known))
    }

    /// Returns `true` if the page is of the same origin, under a host that DNS rebinding cannot have forged.
    fn is_same_origin(&self, scheme: &str, page: HostPort<'_>, host: HostPort<'_>) -> bool {
        let trusted = self.0.hosts.is_some()
            || scheme.eq_ignore_ascii_case("https")
            || host.address().is_some()
            || self.0.configured.iter().any(|known| host.matches(known));
        trusted && page.text.eq_ignore_ascii_case(host.text)
    }
}

fn host_not_allowed() -> Rejection {
    Rejection::host_not_allowed("this Host is not served here: see --allow-host")
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

impl<S, B, R> Service<Request<B>> for AllowedHosts<S>
where
    S: Service<Request<B>, Response = Response<R>, Future: Unpin>,
    R: From<Bytes> + Unpin,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.layer.check(request.uri(), request.headers()) {
            Ok(Some(origin)) if is_preflight(&request) => {
                ResponseFuture::Immediate(Some(preflight(origin, request.headers())))
            }
            Ok(origin) => ResponseFuture::Calling(self.inner.call(request), origin),
            Err(rejection) => ResponseFuture::Immediate(Some(rejection.into_response(None))),
        }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>> + Unpin,
    R: Unpin,
{
    type Output = Result<Response<R>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Calling(future, origin) => Pin::new(future).poll(cx).map_ok(|mut response| {
                if let Some(origin) = origin.take() {
                    allow_origin(origin, response.headers_mut());
                }
                response
            }),
            Self::Immediate(response) => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending,
            },
        }
    }
}

fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight<R: From<Bytes>>(origin: HeaderValue, request_headers: &HeaderMap) -> Response<R> {
    let mut response = Response::new(R::from(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    allow_origin(origin, headers);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(request_headers));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Returns the MCP headers and the requested headers for tool arguments, whose names the tools define (MCP 2026-07-28,
/// Streamable HTTP).
fn allowed_headers(request_headers: &HeaderMap) -> HeaderValue {
    let request_headers = request_headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
    let mut all = ALLOWED_HEADERS.to_owned();
    let names =
        request_headers.and_then(|names| names.to_str().ok()).unwrap_or_default().split(',');
    let names = names.filter_map(|name| HeaderName::try_from(name.trim()).ok());
    for name in names.filter(|name| name.as_str().starts_with("mcp-param-")) {
        all.push_str(", ");
        all.push_str(name.as_str());
    }
    HeaderValue::try_from(all).unwrap_or(HeaderValue::from_static(ALLOWED_HEADERS))
}

/// Adds the CORS headers that let pages of `origin` read the response.
fn allow_origin(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    // The response may vary by other headers, too.
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests;
