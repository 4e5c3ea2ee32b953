//! Middleware that serves known hosts and origins only, and answers CORS preflights.
//!
//! A page that a browser loads from somewhere can make requests to a server on the same machine. It
//! gives itself away by `Host` (DNS rebinding) or `Origin` (MCP 2025-11-25, Streamable HTTP, Security
//! Warning).

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use tower_layer::Layer;
use tower_service::Service;
use vmcp_core::Rejection;

const ALLOWED_HEADERS: &str = "authorization, content-type, accept, last-event-id, \
     mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";
const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
const EXPOSED: HeaderValue =
    HeaderValue::from_static("mcp-session-id, www-authenticate, retry-after");

/// Makes [`Hosts`].
#[derive(Clone, Debug)]
pub struct HostsLayer(Arc<Known>, Origins);

#[derive(Debug)]
struct Known {
    /// Hosts besides those of the loopback interface; `None` serves any host.
    hosts: Option<Vec<String>>,
    /// Hosts under which this server is known by its configuration. They open no list that is not there.
    own: Vec<String>,
    origins: Vec<String>,
}

/// Which origins are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origins {
    Known,
    Any,
}

/// Refuses foreign hosts and origins with 403.
#[derive(Clone, Debug)]
pub struct Hosts<S> {
    inner: S,
    layer: HostsLayer,
}

/// The service's future, or what was answered in its place.
#[derive(Debug)]
pub enum ResponseFuture<F, R> {
    /// For the origin, if there is one, that may read the answer.
    Serving(F, Option<HeaderValue>),
    /// Answered.
    Answered(Option<Response<R>>),
}

impl HostsLayer {
    /// For a server that only this machine reaches: loopback names and `hosts` are served.
    #[must_use]
    pub fn loopback(hosts: Vec<String>, origins: Vec<String>) -> Self {
        Self(Arc::new(Known { hosts: Some(hosts), own: Vec::new(), origins }), Origins::Known)
    }

    /// For a server on a network: any host is served, or only `hosts` if there are some. As long as there are none, a
    /// page of the host itself needs https or an address instead of a name: over plain http anybody's name may
    /// lead here (DNS rebinding).
    #[must_use]
    pub fn network(hosts: Vec<String>, origins: Vec<String>) -> Self {
        let hosts = (!hosts.is_empty()).then_some(hosts);
        Self(Arc::new(Known { hosts, own: Vec::new(), origins }), Origins::Known)
    }

    /// Serves the hosts of `own` as well, which the configuration names as this server's.
    #[must_use]
    pub fn with_own(&self, own: Vec<String>) -> Self {
        let Known { hosts, own: _, origins } = &*self.0;
        let known = Known { hosts: hosts.clone(), own, origins: origins.clone() };
        Self(Arc::new(known), self.1)
    }

    /// The same hosts, for what decides itself which origins may read it.
    #[must_use]
    pub fn of_any_origin(self) -> Self {
        Self(self.0, Origins::Any)
    }

    /// The origin that may read the answer, if the request names one.
    ///
    /// # Errors
    /// A 403 for a host or origin that is not served.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<Option<HeaderValue>, Rejection> {
        let host = headers
            .get(header::HOST)
            .map(|host| host.to_str().unwrap_or_default())
            .or_else(|| uri.authority().map(http::uri::Authority::as_str))
            .unwrap_or_default();
        if let Some(hosts) = &self.0.hosts
            && !is_loopback(host)
            && !hosts.iter().chain(&self.0.own).any(|known| same_host(known, host))
        {
            return Err(Rejection::foreign_host("this Host is not served here: see --allow-host"));
        }
        if self.1 == Origins::Any {
            return Ok(None);
        }
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(None) };
        let text = origin.to_str().unwrap_or_default();
        let (scheme, place) = text.split_once("://").unwrap_or_default();
        let known =
            self.0.origins.iter().any(|known| known.eq_ignore_ascii_case(text) || known == "*")
                || self.is_own(scheme, place, host)
                || is_loopback(place) && is_loopback(host);
        if known {
            return Ok(Some(origin.clone()));
        }
        Err(Rejection::foreign_host("this Origin is not served here: see --allow-origin"))
    }

    /// Whether a page comes from the server that it asks, under a name that nobody else can have given it.
    fn is_own(&self, scheme: &str, place: &str, host: &str) -> bool {
        let trusted = self.0.hosts.is_some()
            || scheme.eq_ignore_ascii_case("https")
            || name_of(host).parse::<IpAddr>().is_ok()
            || self.0.own.iter().any(|known| same_host(known, host));
        trusted && !place.is_empty() && place.eq_ignore_ascii_case(host)
    }
}

/// Whether a host, with or without port, is this machine's own loopback interface.
fn is_loopback(host: &str) -> bool {
    let name = name_of(host);
    // How nearly everybody writes it, before anything is parsed.
    name == "127.0.0.1"
        || name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || name.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback())
}

/// A host without its port and brackets.
fn name_of(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map_or("", |(name, _)| name);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// A known host without a port stands for all ports.
fn same_host(known: &str, host: &str) -> bool {
    known.eq_ignore_ascii_case(host) || known.eq_ignore_ascii_case(name_of(host))
}

impl<S> Layer<S> for HostsLayer {
    type Service = Hosts<S>;

    fn layer(&self, inner: S) -> Hosts<S> {
        Hosts { inner, layer: self.clone() }
    }
}

impl<S, B, R> Service<Request<B>> for Hosts<S>
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
                ResponseFuture::Answered(Some(preflight(origin, request.headers())))
            }
            Ok(origin) => ResponseFuture::Serving(self.inner.call(request), origin),
            Err(refusal) => ResponseFuture::Answered(Some(refusal.into_response(None))),
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
            Self::Serving(future, origin) => Pin::new(future).poll(cx).map_ok(|mut response| {
                if let Some(origin) = origin.take() {
                    readable_by(origin, response.headers_mut());
                }
                response
            }),
            Self::Answered(response) => match response.take() {
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

fn preflight<R: From<Bytes>>(origin: HeaderValue, asked: &HeaderMap) -> Response<R> {
    let mut response = Response::new(R::from(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    readable_by(origin, headers);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(asked));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// The headers of MCP, and those of the arguments that the page means to repeat in headers: their
/// names are the tools' own (MCP 2026-07-28, Streamable HTTP).
fn allowed_headers(asked: &HeaderMap) -> HeaderValue {
    let asked = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
    let mut all = ALLOWED_HEADERS.to_owned();
    let names = asked.and_then(|names| names.to_str().ok()).unwrap_or_default().split(',');
    let names = names.filter_map(|name| HeaderName::try_from(name.trim()).ok());
    for name in names.filter(|name| name.as_str().starts_with("mcp-param-")) {
        all.push_str(", ");
        all.push_str(name.as_str());
    }
    HeaderValue::try_from(all).unwrap_or(HeaderValue::from_static(ALLOWED_HEADERS))
}

/// Lets a page of `origin` read the response.
fn readable_by(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    // The response may vary by more than the origin.
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(layer: &HostsLayer, host: &str, origin: Option<&str>) -> Option<u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        layer.check(&Uri::from_static("/mcp"), &headers).err().map(|no| no.status().as_u16())
    }

    #[test]
    fn a_server_on_the_loopback_interface_serves_its_own_names_only() {
        let layer = HostsLayer::loopback(vec!["gateway.test".to_owned()], Vec::new());
        for host in ["localhost", "LOCALHOST:4483", "127.0.0.1:1", "[::1]:4483", "gateway.test:9"] {
            assert_eq!(check(&layer, host, None), None, "{host}");
        }
        for host in ["evil.example.com", "127.0.0.1.evil.com:80", "localhost.evil.com", ""] {
            assert_eq!(check(&layer, host, None), Some(403), "{host}");
        }
    }

    #[test]
    fn a_page_of_a_foreign_origin_is_refused() {
        let layer = HostsLayer::loopback(Vec::new(), vec!["https://app.test".to_owned()]);
        let host = "127.0.0.1:4483";
        for origin in ["http://localhost:6274", "http://127.0.0.1:4483", "https://app.test"] {
            assert_eq!(check(&layer, host, Some(origin)), None, "{origin}");
        }
        for origin in ["http://evil.example.com", "null", "https://app.test.evil.com"] {
            assert_eq!(check(&layer, host, Some(origin)), Some(403), "{origin}");
        }
    }

    #[test]
    fn hosts_of_the_configuration_are_served() {
        let own = || vec!["mcp.example.com".to_owned()];
        let (host, origin) = ("mcp.example.com:80", Some("http://mcp.example.com:80"));
        let loopback = HostsLayer::loopback(Vec::new(), Vec::new());
        assert_eq!(check(&loopback, host, None), Some(403));
        let loopback = loopback.with_own(own());
        assert_eq!(check(&loopback, host, origin), None);
        assert_eq!(check(&loopback, "evil.example.com", None), Some(403));
        let network = HostsLayer::network(Vec::new(), Vec::new()).with_own(own());
        assert_eq!(check(&network, host, origin), None);
        assert_eq!(check(&network, "other.example.com", None), None);
        let named = HostsLayer::network(vec!["a.test".to_owned()], Vec::new()).with_own(own());
        assert_eq!(check(&named, host, None), None);
        assert_eq!(check(&named, "other.example.com", None), Some(403));
    }

    #[test]
    fn vary_of_the_service_is_kept() {
        let mut headers = HeaderMap::new();
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        readable_by(HeaderValue::from_static("https://app.test"), &mut headers);
        let vary: Vec<_> = headers.get_all(header::VARY).iter().collect();
        assert_eq!(vary, ["accept-encoding", "origin"]);
    }

    #[test]
    fn on_a_network_a_page_of_somebodys_own_machine_is_foreign_too() {
        let layer = HostsLayer::network(Vec::new(), Vec::new());
        assert_eq!(check(&layer, "mcp.example.com", None), None);
        assert_eq!(check(&layer, "mcp.example.com", Some("https://mcp.example.com")), None);
        assert_eq!(check(&layer, "mcp.example.com", Some("http://localhost:1")), Some(403));
    }

    #[test]
    fn on_a_network_a_name_that_was_made_to_lead_here_is_foreign() {
        let (host, origin) = ("evil.example.com:4483", Some("http://evil.example.com:4483"));
        let any = HostsLayer::network(Vec::new(), Vec::new());
        assert_eq!(check(&any, host, origin), Some(403));
        for own in ["10.0.0.7:4483", "[fd00::7]:4483"] {
            assert_eq!(check(&any, own, Some(&format!("http://{own}"))), None, "{own}");
        }
        let named = HostsLayer::network(vec!["tools.example.com".to_owned()], Vec::new());
        assert_eq!(check(&named, host, origin), Some(403));
        let (host, origin) = ("tools.example.com:4483", Some("http://tools.example.com:4483"));
        assert_eq!(check(&named, host, origin), None);
    }
}
