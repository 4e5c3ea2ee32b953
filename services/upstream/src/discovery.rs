//! Provider metadata (OpenID Connect Discovery 1.0, RFC 8414), fetched on demand and cached.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use http::{Request, StatusCode};
use serde::Deserialize;
use vmcp_core::{Body, Clock, SingleFlight};
use vmcp_jwt::JwksSource;

use crate::provider_http::{ProviderHttp, ProviderHttpPair};
use crate::{Endpoint, EndpointError, EndpointKind, Issuer, ProviderError};

/// Time to live of metadata.
const METADATA_TTL: Duration = Duration::from_hours(1);

/// Time for which stale metadata is used while fetches fail.
const STALE_METADATA_TTL: Duration = Duration::from_hours(24);

/// Interval between retries of a failed fetch.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Interval between retries while stale metadata is available.
const STALE_RETRY_INTERVAL: Duration = Duration::from_mins(1);

/// Cached metadata of a provider. Concurrent callers share one fetch, clones share the cache.
#[derive(Clone)]
pub(crate) struct Discovery(Arc<Inner>);

struct Inner {
    /// Candidate URLs, the most likely first; all of one origin.
    urls: Box<[Endpoint]>,
    /// Issuers that the metadata may name.
    issuers: Box<[Issuer]>,
    http_clients: ProviderHttpPair,
    clock: Clock,
    state: Mutex<State>,
    flights: SingleFlight<(), Result<Arc<Metadata>, ProviderError>>,
}

#[derive(Default)]
struct State {
    found: Option<(Arc<Metadata>, SystemTime)>,
    failed: Option<(ProviderError, SystemTime)>,
}

/// Members of the metadata that this crate uses.
pub(crate) struct Metadata {
    pub(crate) issuer: Box<str>,
    pub(crate) authorization: Option<Endpoint>,
    pub(crate) token: Option<Endpoint>,
    pub(crate) user_info: Option<Endpoint>,
    pub(crate) registration: Option<Endpoint>,
    pub(crate) revocation: Option<Endpoint>,
    /// URL of the key set, and its source.
    pub(crate) keys: Option<(Endpoint, JwksSource)>,
    /// Client authentication methods of the token endpoint, if the metadata lists them.
    pub(crate) auth_methods: Option<Vec<String>>,
    /// Client authentication methods of the revocation endpoint, if the metadata lists them
    /// separately.
    pub(crate) revocation_auth_methods: Option<Vec<String>>,
    /// `true` if the provider supports PKCE with S256.
    pub(crate) s256: bool,
    /// `true` if each authorization response has `iss` (RFC 9207 section 3).
    pub(crate) issuer_in_answer: bool,
}

/// Discovery document (RFC 8414 section 2). Duplicate members are an error.
#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    userinfo_endpoint: Option<String>,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    jwks_uri: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    revocation_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    authorization_response_iss_parameter_supported: Option<bool>,
}

// === impl Discovery ===

impl Discovery {
    pub(crate) fn for_issuer(
        issuer: &Issuer,
        http_clients: ProviderHttpPair,
        clock: Clock,
    ) -> Self {
        Self::new(issuer.metadata_urls(), vec![issuer.clone()], http_clients, clock)
    }

    /// Creates the discovery of a document at `url`, which must name one of `issuers`.
    pub(crate) fn at(
        url: Endpoint,
        issuers: Vec<Issuer>,
        http_clients: ProviderHttpPair,
        clock: Clock,
    ) -> Self {
        Self::new(vec![url], issuers, http_clients, clock)
    }

    fn new(
        urls: Vec<Endpoint>,
        issuers: Vec<Issuer>,
        http_clients: ProviderHttpPair,
        clock: Clock,
    ) -> Self {
        Self(Arc::new(Inner {
            urls: urls.into(),
            issuers: issuers.into(),
            http_clients,
            clock,
            state: Mutex::default(),
            flights: SingleFlight::new(),
        }))
    }

    /// Returns the metadata from the cache, or fetches it.
    pub(crate) async fn get(&self) -> Result<Arc<Metadata>, ProviderError> {
        let now = self.0.clock.now();
        if let Some(cached) = self.0.state().cached(now) {
            return cached;
        }
        let inner = Arc::clone(&self.0);
        self.0.flights.join((), || async move { inner.load().await }).await
    }

    /// Returns the HTTP client for a URL from the metadata.
    pub(crate) fn http_client(&self, endpoint: &Endpoint) -> &ProviderHttp {
        self.0.http_client(endpoint)
    }
}

// === impl Inner ===

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        vmcp_core::lock(&self.state)
    }

    fn http_client(&self, endpoint: &Endpoint) -> &ProviderHttp {
        match self.urls.first() {
            Some(home) => self.http_clients.for_endpoint(endpoint, home),
            None => &self.http_clients.supplied,
        }
    }

    async fn load(&self) -> Result<Arc<Metadata>, ProviderError> {
        let now = self.clock.now();
        // A previous caller may have completed a fetch meanwhile.
        if let Some(cached) = self.state().cached(now) {
            return cached;
        }
        match self.fetch().await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                *self.state() = State { found: Some((Arc::clone(&metadata), now)), failed: None };
                Ok(metadata)
            }
            Err(error) => {
                let mut cache = self.state();
                let stale = cache.stale_metadata(now);
                let older_is_used = stale.is_some();
                tracing::warn!(%error, older_is_used, "failed to fetch the metadata of an identity provider");
                cache.failed = Some((error.clone(), now));
                stale.ok_or(error)
            }
        }
    }

    async fn fetch(&self) -> Result<Metadata, ProviderError> {
        let mut first = None;
        for place in &self.urls {
            let mut request = Request::new(Body::empty());
            request.uri_mut().clone_from(place.uri());
            let response =
                self.http_clients.configured.send(EndpointKind::Discovery, request).await?;
            let error = match response.json(EndpointKind::Discovery) {
                Ok(json) => return self.parse(json),
                Err(error) => error,
            };
            // A provider that supports only another URL responds with an error or an HTML page
            // here.
            if response.status.is_server_error() || response.status == StatusCode::TOO_MANY_REQUESTS
            {
                return Err(error);
            }
            first.get_or_insert(error);
        }
        Err(first.unwrap_or(ProviderError::at(EndpointKind::Discovery, EndpointError::Malformed)))
    }

    fn parse(&self, json: &[u8]) -> Result<Metadata, ProviderError> {
        let malformed = || ProviderError::at(EndpointKind::Discovery, EndpointError::Malformed);
        let Document {
            issuer,
            authorization_endpoint,
            token_endpoint,
            userinfo_endpoint,
            registration_endpoint,
            revocation_endpoint,
            jwks_uri,
            token_endpoint_auth_methods_supported,
            revocation_endpoint_auth_methods_supported,
            code_challenge_methods_supported,
            authorization_response_iss_parameter_supported,
        } = serde_json::from_slice(json).map_err(|_| malformed())?;
        if !self.issuers.iter().any(|known| known.as_str() == issuer) {
            // A trailing slash is the most common mistake: the log shows both issuers.
            let found: String = issuer.chars().take(200).collect();
            tracing::warn!(expected = ?self.issuers, ?found, "metadata names another issuer");
            return Err(ProviderError::ConfigMismatch("its metadata names another issuer"));
        }
        let endpoint = |url: Option<String>| url.map(|url| self.endpoint(&url)).transpose();
        let keys = endpoint(jwks_uri)?.map(|at| self.keys(at)).transpose()?;
        Ok(Metadata {
            issuer: issuer.into(),
            authorization: endpoint(authorization_endpoint)?,
            token: endpoint(token_endpoint)?,
            user_info: endpoint(userinfo_endpoint)?,
            registration: endpoint(registration_endpoint)?,
            revocation: endpoint(revocation_endpoint)?,
            keys,
            auth_methods: token_endpoint_auth_methods_supported,
            revocation_auth_methods: revocation_endpoint_auth_methods_supported,
            s256: code_challenge_methods_supported
                .is_some_and(|methods| methods.iter().any(|method| method == "S256")),
            issuer_in_answer: authorization_response_iss_parameter_supported == Some(true),
        })
    }

    /// Parses a URL from the metadata: https, unless the issuer itself is an http URL that the
    /// operator accepted.
    fn endpoint(&self, url: &str) -> Result<Endpoint, ProviderError> {
        let endpoint = Endpoint::allowing_http(url)
            .map_err(|_| ProviderError::at(EndpointKind::Discovery, EndpointError::Malformed))?;
        let plain = |home: &Endpoint| {
            !home.is_https()
                && (endpoint.shares_origin(home) || home.is_loopback() && endpoint.is_loopback())
        };
        if endpoint.is_https() || self.urls.first().is_some_and(plain) {
            Ok(endpoint)
        } else {
            Err(ProviderError::ConfigMismatch("its metadata names an endpoint that is not https"))
        }
    }

    /// Returns the key source at `at`: the previous one if its URL is unchanged, because its keys
    /// are cached.
    fn keys(&self, at: Endpoint) -> Result<(Endpoint, JwksSource), ProviderError> {
        let before = self.state().found.as_ref().and_then(|(found, _)| found.keys.clone());
        if let Some(keys) = before.filter(|(place, _)| *place == at) {
            return Ok(keys);
        }
        let client = self.http_client(&at).client();
        let source = JwksSource::from_url(&at.uri().to_string(), client, self.clock.clone())
            .map_err(|_| ProviderError::at(EndpointKind::Discovery, EndpointError::Malformed))?;
        Ok((at, source))
    }
}

// === impl State ===

impl State {
    /// Returns the cached result, if no fetch is due: metadata within its time to live, or a recent
    /// error.
    fn cached(&self, now: SystemTime) -> Option<Result<Arc<Metadata>, ProviderError>> {
        if let Some((found, at)) = &self.found
            && now < *at + METADATA_TTL
        {
            return Some(Ok(Arc::clone(found)));
        }
        let stale = self.stale_metadata(now);
        let wait = if stale.is_some() { STALE_RETRY_INTERVAL } else { RETRY_INTERVAL };
        let (error, _) = self.failed.as_ref().filter(|(_, at)| now < *at + wait)?;
        Some(stale.ok_or_else(|| error.clone()))
    }

    /// Returns stale metadata, if it is still usable.
    fn stale_metadata(&self, now: SystemTime) -> Option<Arc<Metadata>> {
        let (found, _) = self.found.as_ref().filter(|(_, at)| now < *at + STALE_METADATA_TTL)?;
        Some(Arc::clone(found))
    }
}

#[cfg(test)]
mod tests;
