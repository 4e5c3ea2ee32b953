//! Clients identified by the URL of their metadata document (CIMD).

mod fetch_limiter;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use serde_json::{Map, Value};
use url::{Host, Url};
use vmcp_auth_store::{ApplicationType, Client, ClientAuth, ClientId};
use vmcp_core::{Body, Cache, HttpClient, SingleFlight};

use self::fetch_limiter::FetchLimiter;
use crate::auth_server::AppState;
use crate::redirect_uri::{RedirectKind, RedirectUri};
use crate::registration::is_name;
use crate::{Scopes, Settings};

/// Maximum size of a metadata document, in bytes.
pub const MAX_DOCUMENT: usize = 10 * 1024;

/// Maximum number of redirect URIs in a document.
const MAX_DOCUMENT_REDIRECT_URIS: usize = 32;

/// Timeout of a fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Range of the time for which a document is cached; its headers choose the value.
const CACHE_TIMES: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(24 * 3600);

/// Cache time of a document whose headers specify none.
const DEFAULT_CACHE_TIME: Duration = Duration::from_secs(300);

/// Time after a failed fetch in which the document is not fetched again.
const FAILURE_CACHE_TIME: Duration = Duration::from_secs(10);

/// Maximum number of cached documents, and of cached failures.
const MAX_CACHED_DOCUMENTS: usize = 256;

type Outcome = Result<Arc<Client>, ClientMetadataError>;

/// Cache and fetcher of client metadata documents.
pub(crate) struct ClientMetadataCache {
    http: HttpClient,
    results: Arc<FetchResults>,
    single_flight: SingleFlight<ClientId, Outcome>,
    fetch_limiter: FetchLimiter,
}

/// Results of fetches. Failures, which anyone can cause, have a cache of their own, so they never evict a document.
struct FetchResults {
    documents: Cache<ClientId, Arc<Client>>,
    failures: Cache<ClientId, ClientMetadataError>,
}

/// Error of a client's metadata document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientMetadataError {
    /// The host returned status 404 or 410.
    #[error("failed to fetch client metadata document: status 404 or 410")]
    Gone,
    /// The fetch failed: no connection, a blocked address, a redirect or another status.
    #[error(
        "failed to fetch client metadata document: the host is unreachable, or the status is not 200"
    )]
    Unreachable,
    /// The document did not arrive within 5 s.
    #[error("failed to fetch client metadata document: no complete response within 5 s")]
    Timeout,
    /// The document is larger than [`MAX_DOCUMENT`].
    #[error("client metadata document is too large: use at most {MAX_DOCUMENT} bytes")]
    TooLarge,
    /// The body is not a JSON object, or has a duplicate member.
    #[error("client metadata document is not a JSON object with unique members")]
    NotJson,
    /// The `client_id` differs from the URL of the document.
    #[error("client_id of client metadata document differs from its URL")]
    OtherClient,
    /// The document lacks a usable name or redirect URI, contains a secret or requests an unsupported feature.
    #[error("client metadata document is invalid: {0}")]
    Content(&'static str),
    /// The limit on concurrent fetches is reached.
    #[error("failed to fetch client metadata document: too many concurrent fetches; retry later")]
    Busy,
}

/// Returns `true` if an identifier is the URL of a metadata document: https with a path, without user name, fragment or dot
/// segments.
pub(crate) fn is_document_url(id: &str) -> bool {
    let Ok(url) = Url::parse(id) else { return false };
    let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    let path = url.path();
    // Servers disagree on the meaning of encoded slashes and dots.
    let odd = ["%2e", "%2f", "%5c"].iter().any(|part| path.to_ascii_lowercase().contains(part));
    // Require the URL parser's normal form: two spellings of one URL would be two clients here and one elsewhere.
    url.scheme() == "https"
        && plain
        && path != "/"
        && !odd
        && url.as_str() == id
        && matches!(url.host(), Some(Host::Domain(_)))
}

impl ClientMetadataCache {
    /// Creates a cache that fetches with `http`, which must follow no redirects and reach no private addresses.
    pub(crate) fn new(http: HttpClient) -> Self {
        let results = FetchResults {
            documents: Cache::new(MAX_CACHED_DOCUMENTS),
            failures: Cache::new(MAX_CACHED_DOCUMENTS),
        };
        Self {
            http,
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
        server: &AppState,
    ) -> Result<Client, ClientMetadataError> {
        if let Some(results) = self.results.get(id, server.clock.now()) {
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
            let (id, clock) = (id.clone(), server.clock.clone());
            let allowed = ClientScopes::of(&server.settings);
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

/// Scopes available to a client with a metadata document.
struct ClientScopes {
    scopes: Scopes,
    baseline: Scopes,
}

impl ClientScopes {
    fn of(settings: &Settings) -> Self {
        Self { scopes: settings.scopes.clone(), baseline: settings.baseline_scopes.clone() }
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

/// Parses a document. Unsupported grant and response types are ignored if the required ones are listed.
fn parse_document(
    id: &ClientId,
    bytes: &[u8],
    allowed: &ClientScopes,
    now: SystemTime,
) -> Result<Client, ClientMetadataError> {
    let document = vmcp_jwt::parse_claims(bytes).map_err(|_| ClientMetadataError::NotJson)?;
    if document.get("client_id").and_then(Value::as_str) != Some(id.as_str()) {
        return Err(ClientMetadataError::OtherClient);
    }
    let content = |words| move || ClientMetadataError::Content(words);
    if ["client_secret", "client_secret_expires_at"].iter().any(|name| document.contains_key(*name))
    {
        return Err(ClientMetadataError::Content("remove client_secret"));
    }
    if text(&document, "token_endpoint_auth_method").is_some_and(|method| method != "none") {
        return Err(ClientMetadataError::Content("token_endpoint_auth_method must be none"));
    }
    let name = text(&document, "client_name").filter(|name| is_name(name));
    let name = name.ok_or_else(content("client_name is missing or malformed"))?;
    let uris = strings(&document, "redirect_uris")
        .ok_or_else(content("redirect_uris must be a list of strings"))?;
    if uris.len() > MAX_DOCUMENT_REDIRECT_URIS {
        return Err(ClientMetadataError::Content("redirect_uris must have at most 32 entries"));
    }
    // A private-use scheme does not authenticate the author of the document, so such URIs are not used.
    let usable =
        |uri: &&str| RedirectUri::parse(uri).is_ok_and(|uri| uri.kind() != RedirectKind::App);
    let uris: Vec<_> = uris.into_iter().filter(usable).collect();
    if uris.is_empty() {
        return Err(ClientMetadataError::Content(
            "redirect_uris must have an https or loopback entry",
        ));
    }
    let has = |member: &str, value: &str, unless: bool| {
        if document.contains_key(member) {
            strings(&document, member).is_some_and(|list| list.contains(&value))
        } else {
            unless
        }
    };
    if !has("response_types", "code", true) || !has("grant_types", "authorization_code", true) {
        return Err(ClientMetadataError::Content(
            "response_types must have code, and grant_types authorization_code",
        ));
    }
    let asked = text(&document, "scope").map(Scopes::parse).transpose();
    let asked = asked.map_err(|_| {
        ClientMetadataError::Content(
            "scope is malformed: use space-separated scopes of at \
     most 256 characters",
        )
    })?;
    let scopes =
        asked.map_or_else(|| allowed.scopes.clone(), |asked| asked.intersection(&allowed.scopes));
    Ok(Client {
        id: id.clone(),
        name: Some(name.to_owned()),
        redirect_uris: uris.into_iter().map(str::to_owned).collect(),
        auth: ClientAuth::None,
        refresh: has("grant_types", "refresh_token", true),
        scopes: scopes.union(&allowed.baseline).to_vec(),
        application_type: match text(&document, "application_type") {
            Some("native") => ApplicationType::Native,
            _ => ApplicationType::Web,
        },
        software_id: None,
        created: now.into(),
    })
}

fn text<'a>(document: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    document.get(name).and_then(Value::as_str)
}

fn strings<'a>(document: &'a Map<String, Value>, name: &str) -> Option<Vec<&'a str>> {
    document.get(name)?.as_array()?.iter().map(Value::as_str).collect()
}

/// Returns the time for which a document may be cached (RFC 9111 section 4.2), clamped to [`CACHE_TIMES`].
fn cache_time(headers: &HeaderMap) -> Duration {
    vmcp_core::freshness_lifetime(headers)
        .unwrap_or(DEFAULT_CACHE_TIME)
        .clamp(*CACHE_TIMES.start(), *CACHE_TIMES.end())
}
