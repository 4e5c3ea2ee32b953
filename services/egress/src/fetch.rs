//! Single requests to any origin: key sets, metadata, token endpoints.

use std::{
    fmt,
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use tower_service::Service;
use url::Url;
use vmcp_core::{Body, BoxError};

use crate::{
    AddressPolicy, Client, ClientSettings, ConfigError, Egress, Error, Origin, Versions, collect,
    collect::collect_all, tls::Trust,
};

/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 5;

/// Maximum number of origins with pooled connections.
const MAX_ORIGINS: usize = 32;

/// Future of [`Fetcher`].
pub type FetchFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

/// Destinations and limits of a [`Fetcher`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPolicy {
    /// Addresses that the fetcher may connect to.
    pub addresses: FetchAddresses,
    /// Allows `http` URLs. They are always allowed for the loopback hosts of
    /// [`FetchAddresses::PublicOrLoopback`].
    pub http: bool,
    /// PEM file with certificates to trust in addition to the system's.
    pub ca_bundle: Option<PathBuf>,
    /// Maximum duration of an exchange, from the wait for a connection to the last byte of the
    /// response, including redirects.
    pub deadline: Duration,
    /// Maximum size of a request or response body in bytes.
    pub max_body: usize,
    /// HTTP versions of the fetcher.
    pub versions: Versions,
    /// Follows redirects of a GET within the origin.
    pub redirects: bool,
}

/// Addresses that a [`Fetcher`] may connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchAddresses {
    /// Public addresses, as in [`AddressPolicy::PublicOnly`].
    Public,
    /// Public addresses, and all addresses for a URL with the host `localhost`, 127.0.0.0/8 or
    /// `::1`.
    PublicOrLoopback,
    /// All addresses.
    Any,
}

/// Error of a fetch, in addition to [`Error`].
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The URI is not absolute, or its scheme is neither `http` nor `https`.
    #[error("invalid URL: {0}")]
    Url(#[from] ConfigError),
    /// The URI is not a valid URL.
    #[error("the URL is malformed or not absolute")]
    Malformed,
    /// `http` is not allowed for this origin.
    #[error("{origin} requires https")]
    Insecure {
        /// Origin of the request.
        origin: Origin,
    },
    /// The response did not arrive in time.
    #[error("{origin} did not respond within {limit:?}")]
    Timeout {
        /// Origin of the request.
        origin: Origin,
        /// Time limit.
        limit: Duration,
    },
}

/// Sends single requests with absolute URIs and returns complete responses, including trailers.
///
/// Each origin has its own [`Client`]; the 32 most recently used ones keep their connections. A
/// redirect of a GET within its origin is followed, at most five times; any other redirect is
/// [`Error::Redirected`]. Event streams get no special treatment: a response is returned completely
/// or not at all.
///
/// Use separate fetchers for URLs from the configuration and URLs from fetched documents:
/// [`FetchPolicy::configured`] and [`FetchPolicy::supplied`].
#[derive(Clone)]
pub struct Fetcher(Arc<FetcherInner>);

struct FetcherInner {
    egress: Egress,
    policy: FetchPolicy,
    /// Ordered by use, the most recent one last.
    clients: Mutex<Vec<Client>>,
}

// === impl FetchPolicy ===

impl FetchPolicy {
    /// Creates a policy for configured URLs: `https` and public addresses, or a loopback host.
    #[must_use]
    pub fn configured() -> Self {
        Self { addresses: FetchAddresses::PublicOrLoopback, ..Self::supplied() }
    }

    /// Creates a policy for untrusted URLs: `https` and public addresses, 30 s, 1 MiB.
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

    /// Checks whether a fetcher with this policy accepts `url`, without resolving its name, so that
    /// errors are reported before the first request.
    ///
    /// # Errors
    ///
    /// [`FetchError::Url`] or [`FetchError::Insecure`].
    pub fn check(&self, url: &Url) -> Result<(), FetchError> {
        self.address_policy(&Origin::of(url)?).map(drop)
    }

    /// Returns the addresses that are allowed for `origin`.
    fn address_policy(&self, origin: &Origin) -> Result<AddressPolicy, FetchError> {
        let excepted = origin.is_loopback() && self.addresses == FetchAddresses::PublicOrLoopback;
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
    /// Creates a fetcher with `policy`, whose connections count in `egress`.
    ///
    /// # Errors
    ///
    /// The CA bundle is invalid.
    pub fn new(egress: Egress, policy: FetchPolicy) -> Result<Self, ConfigError> {
        // Validated here; each client reads it again.
        Trust::new(policy.ca_bundle.as_deref())?;
        Ok(Self(Arc::new(FetcherInner { egress, policy, clients: Mutex::default() })))
    }

    /// Sends `request` and returns the complete response.
    ///
    /// # Errors
    ///
    /// [`FetchError`], [`Error`], or the error of the request body.
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
        let mut clients = vmcp_core::lock(&self.clients);
        if let Some(at) = clients.iter().position(|client| client.origin() == origin) {
            let client = clients.remove(at);
            clients.push(client.clone());
            return Ok(client);
        }
        let url = Url::parse(&origin.url()).map_err(|_| FetchError::Malformed)?;
        let FetchPolicy { ca_bundle, versions, .. } = &self.policy;
        let ca_bundle = ca_bundle.clone();
        let settings =
            ClientSettings { ca_bundle, addresses, versions: *versions, display_origin: None };
        let client = self.egress.client(&url, settings)?.with_max_body(self.policy.max_body as u64);
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

/// Request of a response that may be a redirect.
struct RedirectContext<'a> {
    method: &'a Method,
    uri: &'a Uri,
    followed: usize,
}

impl RedirectContext<'_> {
    /// Returns the target of a redirect (RFC 9110 section 15.4); `None` for other responses.
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
            return reject(None, "the Location is missing or invalid");
        };
        let Ok(to) = Origin::of(&target) else {
            return reject(None, "the Location is not an http or https URL without user info");
        };
        if self.method != Method::GET {
            return reject(Some(to), "only a GET is repeated");
        }
        if to != *origin {
            return reject(Some(to), "it leads to another origin");
        }
        if self.followed >= MAX_REDIRECTS {
            return reject(Some(to), "too many redirects");
        }
        match target[..url::Position::AfterQuery].parse() {
            Ok(uri) => Ok(Some(uri)),
            Err(_) => reject(Some(to), "the Location is invalid"),
        }
    }
}

fn origin(uri: &Uri) -> Result<Origin, FetchError> {
    let url = Url::parse(&uri.to_string()).map_err(|_| FetchError::Malformed)?;
    Ok(Origin::of(&url)?)
}

#[cfg(test)]
mod tests;
