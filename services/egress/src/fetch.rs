//! Single requests to whichever origin: key sets, metadata, token endpoints.

use std::{
    fmt,
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use tower_service::Service;
use url::{Host, Url};
use vmcp_core::{Body, BoxError};

use crate::{
    AddressPolicy, Client, ConfigError, Egress, Error, Origin, Target, Versions, collect,
    collect::collect_all, tls::Trust,
};

/// How many redirects of one request are followed.
const MAX_REDIRECTS: usize = 5;

/// How many origins keep their connections.
const MAX_ORIGINS: usize = 32;

/// What [`Fetcher`] answers.
pub type FetchFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

/// Where a [`Fetcher`] may go, and how much of what it gets it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPolicy {
    /// Which addresses are connected to.
    pub addresses: FetchAddresses,
    /// Whether `http` URLs are allowed. To the hosts that [`FetchAddresses::PublicOrLoopback`]
    /// takes for loopback they always are.
    pub http: bool,
    /// A PEM file whose certificates are trusted in addition to the system's.
    pub ca_bundle: Option<PathBuf>,
    /// How long one exchange may take, from the wait for a connection to the last byte of the
    /// answer, redirects included.
    pub deadline: Duration,
    /// How many bytes a body may have, the request's and the response's.
    pub max_body: usize,
    /// Which versions of HTTP are spoken.
    pub versions: Versions,
    /// Whether a GET goes on where its answer leads, on the same origin.
    pub redirects: bool,
}

/// Which addresses a [`Fetcher`] connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchAddresses {
    /// Public ones, by [`AddressPolicy::PublicOnly`].
    Public,
    /// Public ones, and any for a URL whose host is `localhost`, 127.0.0.0/8 or `::1`.
    PublicOrLoopback,
    /// All.
    Any,
}

/// Why a request was not sent, or its answer not taken, beside the reasons of [`Error`].
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The URI is not absolute, or its scheme is neither `http` nor `https`.
    #[error("the URL cannot be fetched: {0}")]
    Url(#[from] ConfigError),
    /// The URI cannot be read as a URL.
    #[error("the URL is malformed or not absolute")]
    Malformed,
    /// `http` is not allowed there.
    #[error("{origin} is asked with https only")]
    Insecure {
        /// Where the request was to go.
        origin: Origin,
    },
    /// The answer did not arrive in time.
    #[error("{origin} did not answer within {limit:?}")]
    Timeout {
        /// Where the request went.
        origin: Origin,
        /// How long it had.
        limit: Duration,
    },
}

/// Sends single requests with absolute URIs and hands back whole answers, trailers included.
///
/// Each origin has a [`Client`] of its own; the 32 that were used last keep their connections. A
/// redirect is followed if the request is a GET and the new URL is of the same origin, at most five
/// times; otherwise it is [`Error::Redirected`]. What an event stream announces makes no
/// difference: an answer is taken whole or not at all.
///
/// A URL that the operator configured and one that was read from a fetched document are not the
/// same: make two fetchers, by [`FetchPolicy::configured`] and [`FetchPolicy::supplied`].
#[derive(Clone)]
pub struct Fetcher(Arc<FetcherInner>);

struct FetcherInner {
    egress: Egress,
    policy: FetchPolicy,
    /// The one that was used last is at the end.
    clients: Mutex<Vec<Client>>,
}

// === impl FetchPolicy ===

impl FetchPolicy {
    /// For URLs that the operator configured: `https` and public addresses, or a loopback host.
    #[must_use]
    pub fn configured() -> Self {
        Self { addresses: FetchAddresses::PublicOrLoopback, ..Self::supplied() }
    }

    /// For URLs that somebody else chose: `https` and public addresses. 30 s, 1 MiB.
    #[must_use]
    pub fn supplied() -> Self {
        Self {
            addresses: FetchAddresses::Public,
            http: false,
            ca_bundle: None,
            deadline: Duration::from_secs(30),
            max_body: 1024 * 1024,
            versions: Versions::Negotiated,
            redirects: true,
        }
    }

    /// Whether a fetcher with this policy would ask `url`, as far as that can be told without
    /// resolving its name: for mistakes that should be known before the first request.
    ///
    /// # Errors
    ///
    /// [`FetchError::Url`] or [`FetchError::Insecure`].
    pub fn check(&self, url: &Url) -> Result<(), FetchError> {
        self.address_policy(&Origin::of(url)?).map(drop)
    }

    /// Which addresses may be connected to for `origin`, if it may be asked at all.
    fn address_policy(&self, origin: &Origin) -> Result<AddressPolicy, FetchError> {
        let loopback = match origin.host() {
            Host::Domain(name) => name == "localhost",
            Host::Ipv4(v4) => v4.is_loopback(),
            Host::Ipv6(v6) => v6.is_loopback(),
        };
        let excepted = loopback && self.addresses == FetchAddresses::PublicOrLoopback;
        if !(origin.is_secure() || self.http || excepted) {
            return Err(FetchError::Insecure { origin: origin.clone() });
        }
        Ok(if excepted || self.addresses == FetchAddresses::Any {
            AddressPolicy::Any
        } else {
            AddressPolicy::PublicOnly
        })
    }
}

// === impl Fetcher ===

impl Fetcher {
    /// Fetches by `policy`, with connections that `egress` counts and limits.
    ///
    /// # Errors
    ///
    /// The CA bundle can't be used.
    pub fn new(egress: Egress, policy: FetchPolicy) -> Result<Self, ConfigError> {
        // Read here for its mistakes; each origin's client reads it again.
        Trust::new(policy.ca_bundle.as_deref())?;
        Ok(Self(Arc::new(FetcherInner { egress, policy, clients: Mutex::default() })))
    }

    /// Sends `request`; the answer is complete.
    ///
    /// # Errors
    ///
    /// [`FetchError`], [`Error`], or what the request's body reports.
    pub async fn fetch(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let origin = origin(request.uri())?;
        let client = self.0.client(&origin)?;
        let limit = self.0.policy.deadline;
        let exchange = self.0.exchange(client, request);
        let Ok(answer) = tokio::time::timeout(limit, exchange).await else {
            return Err(FetchError::Timeout { origin, limit }.into());
        };
        answer
    }
}

impl Service<Request<Body>> for Fetcher {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = FetchFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Waiting for a connection is part of the exchange, as in `Client`.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> FetchFuture {
        let this = self.clone();
        Box::pin(async move { this.fetch(request).await })
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("policy", &self.0.policy).finish_non_exhaustive()
    }
}

// === impl FetcherInner ===

impl FetcherInner {
    fn client(&self, origin: &Origin) -> Result<Client, FetchError> {
        let addresses = self.policy.address_policy(origin)?;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = clients.iter().position(|client| client.origin() == origin) {
            let client = clients.remove(at);
            clients.push(client.clone());
            return Ok(client);
        }
        let url = Url::parse(&origin.url()).map_err(|_| FetchError::Malformed)?;
        let FetchPolicy { ca_bundle, versions, .. } = &self.policy;
        let ca_bundle = ca_bundle.clone();
        let target = Target { ca_bundle, addresses, versions: *versions, display_origin: None };
        let client = self.egress.client(&url, target)?.with_max_body(self.policy.max_body as u64);
        if clients.len() == MAX_ORIGINS {
            clients.remove(0);
        }
        clients.push(client.clone());
        Ok(client)
    }

    async fn exchange(
        &self,
        client: Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        let limit = self.policy.max_body;
        let follows = self.policy.redirects;
        let (head, body) = request.into_parts();
        let body = collect(body, limit).await?;
        let mut next = Request::from_parts(head, Full::new(body));
        let mut followed = 0;
        loop {
            let response = client.send(next.clone()).await?;
            let status = response.status();
            let context = RedirectContext { method: next.method(), uri: next.uri(), followed };
            if follows
                && let Some(uri) = context.target(client.origin(), status, response.headers())?
            {
                *next.uri_mut() = uri;
                followed += 1;
                continue;
            }
            let (head, body) = response.into_parts();
            let (body, trailers) = collect_all(body, limit).await?;
            let body = match trailers {
                None => body.into(),
                Some(trailers) => {
                    let trailers = std::future::ready(Some(Ok(trailers)));
                    Body::wrap(Full::new(body).with_trailers(trailers))
                }
            };
            return Ok(Response::from_parts(head, body));
        }
    }
}

/// What a response answers.
struct RedirectContext<'a> {
    method: &'a Method,
    uri: &'a Uri,
    followed: usize,
}

impl RedirectContext<'_> {
    /// Where the response sends the request, if anywhere (RFC 9110 section 15.4).
    fn target(
        &self,
        origin: &Origin,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<Option<Uri>, Error> {
        if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let reject = |to, reason| Err(Error::Redirected { to, reason });
        let target = headers
            .get(header::LOCATION)
            .and_then(|location| location.to_str().ok())
            .and_then(|location| Url::parse(&self.uri.to_string()).ok()?.join(location).ok());
        let Some(target) = target else {
            return reject(None, "it has no valid Location");
        };
        let Ok(to) = Origin::of(&target) else {
            return reject(None, "its Location is no http or https URL without user info");
        };
        if self.method != Method::GET {
            return reject(Some(to), "only a GET is sent again");
        }
        if to != *origin {
            return reject(Some(to), "it leads to another origin");
        }
        if self.followed >= MAX_REDIRECTS {
            return reject(Some(to), "there are too many");
        }
        match target[..url::Position::AfterQuery].parse() {
            Ok(uri) => Ok(Some(uri)),
            Err(_) => reject(Some(to), "it has no valid Location"),
        }
    }
}

fn origin(uri: &Uri) -> Result<Origin, FetchError> {
    let url = Url::parse(&uri.to_string()).map_err(|_| FetchError::Malformed)?;
    Ok(Origin::of(&url)?)
}

#[cfg(test)]
mod tests;
