//! Clients identified by the URL of their metadata document (CIMD).

mod document;
mod fetch_limiter;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use url::Url;
use vmcp_auth_store::{Client, ClientId};
use vmcp_core::{Body, Cache, Clock, HttpClient, SingleFlight};

pub(crate) use self::document::is_document_url;
pub use self::document::{ClientMetadataError, MAX_DOCUMENT};
use self::document::{ClientScopes, parse_document};
use self::fetch_limiter::FetchLimiter;
use crate::settings::Settings;

/// Timeout of a fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Range of the time for which a document is cached; its headers choose the value.
const CACHE_TIMES: std::ops::RangeInclusive<Duration> =
    Duration::from_mins(1)..=Duration::from_hours(24);

/// Cache time of a document whose headers specify none.
const DEFAULT_CACHE_TIME: Duration = Duration::from_mins(5);

/// Time after a failed fetch in which the document is not fetched again.
const FAILURE_CACHE_TIME: Duration = Duration::from_secs(10);

/// Maximum number of cached documents, and of cached failures.
const MAX_CACHED_DOCUMENTS: usize = 256;

type Outcome = Result<Arc<Client>, ClientMetadataError>;

/// Cache and fetcher of client metadata documents.
pub(crate) struct ClientMetadataCache {
    http: HttpClient,
    clock: Clock,
    scopes: ClientScopes,
    results: Arc<FetchResults>,
    single_flight: SingleFlight<ClientId, Outcome>,
    fetch_limiter: FetchLimiter,
}

/// Results of fetches. Failures, which anyone can cause, have a cache of their own, so they never evict a document.
struct FetchResults {
    documents: Cache<ClientId, Arc<Client>>,
    failures: Cache<ClientId, ClientMetadataError>,
}

impl ClientMetadataCache {
    /// Creates a cache that fetches with `http`, which must follow no redirects and reach no private addresses.
    pub(crate) fn new(http: HttpClient, settings: &Settings, clock: Clock) -> Self {
        let results = FetchResults {
            documents: Cache::new(MAX_CACHED_DOCUMENTS),
            failures: Cache::new(MAX_CACHED_DOCUMENTS),
        };
        Self {
            http,
            clock,
            scopes: ClientScopes::from_settings(settings),
            results: Arc::new(results),
            single_flight: SingleFlight::new(),
            fetch_limiter: FetchLimiter::default(),
        }
    }

    /// Returns the number of cached documents and failures.
    pub(crate) fn len(&self) -> usize {
        self.results.len()
    }

    /// Returns the client of this document, for a request from this address.
    pub(crate) async fn resolve(
        &self,
        id: &ClientId,
        address: IpAddr,
    ) -> Result<Client, ClientMetadataError> {
        if let Some(results) = self.results.get(id, self.clock.now()) {
            return results.map(Arc::unwrap_or_clone);
        }
        // A running fetch is joined without a permit; only a new fetch needs one.
        let start_fetch = || {
            let url = Url::parse(id.as_str()).ok();
            let host =
                url.as_ref().and_then(Url::host_str).ok_or(ClientMetadataError::Unreachable)?;
            let permit =
                self.fetch_limiter.acquire(host, address).ok_or(ClientMetadataError::Busy)?;
            let (http, results) = (self.http.clone(), Arc::clone(&self.results));
            let (id, clock) = (id.clone(), self.clock.clone());
            let allowed = self.scopes.clone();
            Ok(async move {
                let _permit = permit;
                let fetched = match tokio::time::timeout(FETCH_TIMEOUT, fetch(http, &id)).await {
                    Ok(fetched) => fetched,
                    Err(_) => Err(ClientMetadataError::Timeout),
                };
                let now = clock.now();
                let outcome = fetched.and_then(|(headers, bytes)| {
                    let client = parse_document(&id, &bytes, &allowed, now)?;
                    Ok((Arc::new(client), cache_time(&headers)))
                });
                results.insert(id, outcome, now)
            })
        };
        self.single_flight.try_join(id.clone(), start_fetch).await?.map(Arc::unwrap_or_clone)
    }
}

impl FetchResults {
    fn get(&self, id: &ClientId, now: SystemTime) -> Option<Outcome> {
        let failure = || self.failures.get(id, now).map(Err);
        self.documents.get(id, now).map(Ok).or_else(failure)
    }

    fn insert(
        &self,
        id: ClientId,
        outcome: Result<(Arc<Client>, Duration), ClientMetadataError>,
        now: SystemTime,
    ) -> Outcome {
        match outcome {
            Ok((client, time)) => {
                self.documents.insert(id, Arc::clone(&client), now + time, now);
                Ok(client)
            }
            Err(error) => {
                tracing::info!(client = %id, %error, "client metadata document rejected");
                self.failures.insert(id, error, now + FAILURE_CACHE_TIME, now);
                Err(error)
            }
        }
    }

    fn len(&self) -> usize {
        self.documents.len() + self.failures.len()
    }
}

impl fmt::Debug for ClientMetadataCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cimd").field("kept", &self.results.len()).finish_non_exhaustive()
    }
}

async fn fetch(http: HttpClient, id: &ClientId) -> Result<(HeaderMap, Bytes), ClientMetadataError> {
    let request = Request::get(id.as_str())
        .header(ACCEPT, HeaderValue::from_static("application/json"))
        .body(Body::empty())
        .map_err(|_| ClientMetadataError::Unreachable)?;
    let response = http.send(request).await.map_err(|_| ClientMetadataError::Unreachable)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND | StatusCode::GONE => return Err(ClientMetadataError::Gone),
        _ => return Err(ClientMetadataError::Unreachable),
    }
    let (parts, body) = response.into_parts();
    let media = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = media.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") && !media.ends_with("+json") {
        return Err(ClientMetadataError::NotJson);
    }
    match vmcp_core::collect_limited(body, MAX_DOCUMENT).await {
        Ok(bytes) => Ok((parts.headers, bytes)),
        Err(vmcp_core::BodyError::TooLarge { .. }) => Err(ClientMetadataError::TooLarge),
        Err(_) => Err(ClientMetadataError::Unreachable),
    }
}

/// Returns the time for which a document may be cached (RFC 9111 section 4.2), clamped to [`CACHE_TIMES`].
fn cache_time(headers: &HeaderMap) -> Duration {
    vmcp_core::freshness_lifetime(headers)
        .unwrap_or(DEFAULT_CACHE_TIME)
        .clamp(*CACHE_TIMES.start(), *CACHE_TIMES.end())
}
