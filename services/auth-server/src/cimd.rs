//! Clients identified by the URL of their metadata document (CIMD).

mod slots;

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

use self::slots::FetchSlots;
use crate::redirect::{RedirectKind, RedirectUri};
use crate::register::is_name;
use crate::server::Inner;
use crate::{Scopes, Settings};

/// Maximum size of a metadata document, in bytes.
pub const MAX_DOCUMENT: usize = 10 * 1024;

/// Maximum number of redirect URIs in a document.
const MAX_URIS: usize = 32;

/// Timeout of a fetch.
const TIME: Duration = Duration::from_secs(5);

/// Range of the time for which a document is cached; its headers choose the value.
const KEPT: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(24 * 3600);

/// Cache time of a document whose headers specify none.
const USUAL: Duration = Duration::from_secs(300);

/// Time after a failed fetch in which the document is not fetched again.
const FAILED: Duration = Duration::from_secs(10);

/// Maximum number of cached documents, and of cached failures.
const DOCUMENTS: usize = 256;

type Outcome = Result<Arc<Client>, CimdFault>;

/// Cache and fetcher of client metadata documents.
pub(crate) struct Cimd {
    http: HttpClient,
    kept: Arc<Kept>,
    flights: SingleFlight<ClientId, Outcome>,
    slots: FetchSlots,
}

/// Results of fetches. Failures, which anyone can cause, have a cache of their own, so they never evict a document.
struct Kept {
    documents: Cache<ClientId, Arc<Client>>,
    failures: Cache<ClientId, CimdFault>,
}

/// Error of a client's metadata document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CimdFault {
    /// The host returned status 404 or 410.
    #[error("the client's metadata document is gone")]
    Gone,
    /// The fetch failed: no connection, a blocked address, a redirect or another status.
    #[error("the client's metadata document cannot be fetched")]
    Unreachable,
    /// The document did not arrive within 5 s.
    #[error("the client's metadata document takes too long")]
    Slow,
    /// The document is larger than [`MAX_DOCUMENT`].
    #[error("the client's metadata document is larger than {MAX_DOCUMENT} bytes")]
    TooLarge,
    /// The body is not a JSON object, or has a duplicate member.
    #[error("the client's metadata document is no JSON object")]
    NotJson,
    /// The `client_id` differs from the URL of the document.
    #[error("the client's metadata document is of another client")]
    OtherClient,
    /// The document lacks a usable name or redirect URI, contains a secret or requests an unsupported feature.
    #[error("the client's metadata document has something that is not allowed: {0}")]
    Content(&'static str),
    /// The limit on concurrent fetches is reached.
    #[error("too many metadata documents are being fetched")]
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

impl Cimd {
    /// Creates a cache that fetches with `http`, which must follow no redirects and reach no private addresses.
    pub(crate) fn new(http: HttpClient) -> Self {
        let kept = Kept { documents: Cache::new(DOCUMENTS), failures: Cache::new(DOCUMENTS) };
        Self {
            http,
            kept: Arc::new(kept),
            flights: SingleFlight::new(),
            slots: FetchSlots::default(),
        }
    }

    /// Returns the number of cached documents and failures.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns the client of this document, for a request from this address.
    pub(crate) async fn client(
        &self,
        id: &ClientId,
        address: IpAddr,
        server: &Inner,
    ) -> Result<Client, CimdFault> {
        if let Some(kept) = self.kept.get(id, server.clock.now()) {
            return kept.map(Arc::unwrap_or_clone);
        }
        // A running fetch is joined without a permit; only a new fetch needs one.
        let fetch = || {
            let url = Url::parse(id.as_str()).ok();
            let host = url.as_ref().and_then(Url::host_str).ok_or(CimdFault::Unreachable)?;
            let permit = self.slots.acquire(host, address).ok_or(CimdFault::Busy)?;
            let (http, kept) = (self.http.clone(), Arc::clone(&self.kept));
            let (id, clock) = (id.clone(), server.clock.clone());
            let allowed = Allowed::of(&server.settings);
            Ok(async move {
                let _permit = permit;
                let fetched = match tokio::time::timeout(TIME, get(http, &id)).await {
                    Ok(fetched) => fetched,
                    Err(_) => Err(CimdFault::Slow),
                };
                let now = clock.now();
                let outcome = fetched.and_then(|(headers, bytes)| {
                    let client = read(&id, &bytes, &allowed, now)?;
                    Ok((Arc::new(client), freshness(&headers)))
                });
                kept.keep(id, outcome, now)
            })
        };
        self.flights.try_join(id.clone(), fetch).await?.map(Arc::unwrap_or_clone)
    }
}

impl Kept {
    fn get(&self, id: &ClientId, now: SystemTime) -> Option<Outcome> {
        let failure = || self.failures.get(id, now).map(Err);
        self.documents.get(id, now).map(Ok).or_else(failure)
    }

    fn keep(
        &self,
        id: ClientId,
        outcome: Result<(Arc<Client>, Duration), CimdFault>,
        now: SystemTime,
    ) -> Outcome {
        match outcome {
            Ok((client, time)) => {
                self.documents.insert(id, Arc::clone(&client), now + time, now);
                Ok(client)
            }
            Err(fault) => {
                tracing::info!(client = %id, %fault, "a client's metadata document is not usable");
                self.failures.insert(id, fault, now + FAILED, now);
                Err(fault)
            }
        }
    }

    fn len(&self) -> usize {
        self.documents.len() + self.failures.len()
    }
}

impl fmt::Debug for Cimd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cimd").field("kept", &self.kept.len()).finish_non_exhaustive()
    }
}

/// Scopes available to a client with a metadata document.
struct Allowed {
    scopes: Scopes,
    baseline: Scopes,
}

impl Allowed {
    fn of(settings: &Settings) -> Self {
        Self { scopes: settings.scopes.clone(), baseline: settings.baseline_scopes.clone() }
    }
}

async fn get(http: HttpClient, id: &ClientId) -> Result<(HeaderMap, Bytes), CimdFault> {
    let request = Request::get(id.as_str())
        .header(ACCEPT, HeaderValue::from_static("application/json"))
        .body(Body::empty())
        .map_err(|_| CimdFault::Unreachable)?;
    let response = http.send(request).await.map_err(|_| CimdFault::Unreachable)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND | StatusCode::GONE => return Err(CimdFault::Gone),
        _ => return Err(CimdFault::Unreachable),
    }
    let (parts, body) = response.into_parts();
    let media = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = media.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") && !media.ends_with("+json") {
        return Err(CimdFault::NotJson);
    }
    match vmcp_core::collect_limited(body, MAX_DOCUMENT).await {
        Ok(bytes) => Ok((parts.headers, bytes)),
        Err(vmcp_core::BodyError::TooLarge { .. }) => Err(CimdFault::TooLarge),
        Err(_) => Err(CimdFault::Unreachable),
    }
}

/// Parses a document. Unsupported grant and response types are ignored if the required ones are listed.
fn read(
    id: &ClientId,
    bytes: &[u8],
    allowed: &Allowed,
    now: SystemTime,
) -> Result<Client, CimdFault> {
    let document = vmcp_jwt::parse_claims(bytes).map_err(|_| CimdFault::NotJson)?;
    if document.get("client_id").and_then(Value::as_str) != Some(id.as_str()) {
        return Err(CimdFault::OtherClient);
    }
    let content = |words| move || CimdFault::Content(words);
    if ["client_secret", "client_secret_expires_at"].iter().any(|name| document.contains_key(*name))
    {
        return Err(CimdFault::Content("a client secret"));
    }
    if text(&document, "token_endpoint_auth_method").is_some_and(|method| method != "none") {
        return Err(CimdFault::Content("token_endpoint_auth_method is not none"));
    }
    let name = text(&document, "client_name").filter(|name| is_name(name));
    let name = name.ok_or_else(content("client_name is missing or malformed"))?;
    let uris =
        strings(&document, "redirect_uris").ok_or_else(content("redirect_uris is no list"))?;
    if uris.len() > MAX_URIS {
        return Err(CimdFault::Content("redirect_uris has more than 32"));
    }
    // A private-use scheme does not authenticate the author of the document, so such URIs are not used.
    let usable =
        |uri: &&str| RedirectUri::parse(uri).is_ok_and(|uri| uri.kind() != RedirectKind::App);
    let uris: Vec<_> = uris.into_iter().filter(usable).collect();
    if uris.is_empty() {
        return Err(CimdFault::Content("redirect_uris has none that is https or on loopback"));
    }
    let has = |member: &str, value: &str, unless: bool| {
        if document.contains_key(member) {
            strings(&document, member).is_some_and(|list| list.contains(&value))
        } else {
            unless
        }
    };
    if !has("response_types", "code", true) || !has("grant_types", "authorization_code", true) {
        return Err(CimdFault::Content("it uses neither codes nor the grant authorization_code"));
    }
    let asked = text(&document, "scope").map(Scopes::parse).transpose();
    let asked = asked.map_err(|_| CimdFault::Content("scope is malformed"))?;
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

/// Returns the time for which a document may be cached (RFC 9111 section 4.2), clamped to [`KEPT`].
fn freshness(headers: &HeaderMap) -> Duration {
    vmcp_core::freshness_lifetime(headers).unwrap_or(USUAL).clamp(*KEPT.start(), *KEPT.end())
}
