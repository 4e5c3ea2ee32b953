//! Clients that are known by the URL of their metadata document (CIMD), which is fetched.

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
use vmcp_core::{Body, Cache, Flights, HttpClient};

use self::slots::FetchSlots;
use crate::redirect::{RedirectKind, RedirectUri};
use crate::register::is_name;
use crate::server::Inner;
use crate::{Scopes, Settings};

/// The largest document that is read, in bytes.
pub const MAX_DOCUMENT: usize = 10 * 1024;

/// The most redirect URIs that a document may have.
const MAX_URIS: usize = 32;

/// How long a document may take.
const TIME: Duration = Duration::from_secs(5);

/// How long a document is kept: as its headers say, within these.
const KEPT: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(60)..=Duration::from_secs(24 * 3600);

/// How long a document is kept that doesn't say.
const USUAL: Duration = Duration::from_secs(300);

/// How long nobody asks again after a fetch failed.
const FAILED: Duration = Duration::from_secs(10);

/// How many documents are kept, and how many failures.
const DOCUMENTS: usize = 256;

type Outcome = Result<Arc<Client>, CimdFault>;

/// Fetches and keeps metadata documents of clients.
pub(crate) struct Cimd {
    http: HttpClient,
    kept: Arc<Kept>,
    flights: Flights<ClientId, Outcome>,
    slots: FetchSlots,
}

/// What came of fetches. Failures, which anyone can cause, are apart: no number of them evicts a document.
struct Kept {
    documents: Cache<ClientId, Arc<Client>>,
    failures: Cache<ClientId, CimdFault>,
}

/// Why a client's metadata document is not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CimdFault {
    /// It is not there any more: status 404 or 410.
    #[error("the client's metadata document is gone")]
    Gone,
    /// It cannot be had: no connection, an address that may not be reached, a redirect, another status.
    #[error("the client's metadata document cannot be fetched")]
    Unreachable,
    /// It did not come in 5 s.
    #[error("the client's metadata document takes too long")]
    Slow,
    /// It is larger than [`MAX_DOCUMENT`].
    #[error("the client's metadata document is larger than {MAX_DOCUMENT} bytes")]
    TooLarge,
    /// It is no JSON object, or has a member twice.
    #[error("the client's metadata document is no JSON object")]
    NotJson,
    /// Its `client_id` is not the URL that it was fetched from.
    #[error("the client's metadata document is of another client")]
    OtherClient,
    /// It has no usable name or redirect URI, a secret, or asks for what is not offered.
    #[error("the client's metadata document has something that is not allowed: {0}")]
    Content(&'static str),
    /// Too many are being fetched.
    #[error("too many metadata documents are being fetched")]
    Busy,
}

/// Whether an identifier is the URL of a metadata document: https with a path, without user name, fragment or
/// dots in the path.
pub(crate) fn is_document_url(id: &str) -> bool {
    let Ok(url) = Url::parse(id) else { return false };
    let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    let path = url.path();
    // Encoded slashes and dots mean one thing here and another one there.
    let odd = ["%2e", "%2f", "%5c"].iter().any(|part| path.to_ascii_lowercase().contains(part));
    // A text that a URL parser would write in another way could be two clients in one place and one in another.
    url.scheme() == "https"
        && plain
        && path != "/"
        && !odd
        && url.as_str() == id
        && matches!(url.host(), Some(Host::Domain(_)))
}

impl Cimd {
    /// Fetches with `http`, which must follow no redirects and reach no private addresses.
    pub(crate) fn new(http: HttpClient) -> Self {
        let kept = Kept { documents: Cache::new(DOCUMENTS), failures: Cache::new(DOCUMENTS) };
        Self { http, kept: Arc::new(kept), flights: Flights::new(), slots: FetchSlots::default() }
    }

    /// How many documents and failures are kept.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The client of this document, for a request from this address.
    pub(crate) async fn client(
        &self,
        id: &ClientId,
        address: IpAddr,
        server: &Inner,
    ) -> Result<Client, CimdFault> {
        if let Some(kept) = self.kept.get(id, server.clock.now()) {
            return kept.map(Arc::unwrap_or_clone);
        }
        // Whether there is room matters to a new fetch only: one that is under way is joined first.
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

/// What a client may have.
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
    match vmcp_core::read(body, MAX_DOCUMENT).await {
        Ok(bytes) => Ok((parts.headers, bytes)),
        Err(vmcp_core::BodyError::TooLarge { .. }) => Err(CimdFault::TooLarge),
        Err(_) => Err(CimdFault::Unreachable),
    }
}

/// Reads a document. Grant and response types beside the ones that are needed are ignored.
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
    // An application's scheme proves nothing about who wrote the document, so it is not used.
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

/// How long a document may be kept (RFC 9111 section 4.2), within [`KEPT`].
fn freshness(headers: &HeaderMap) -> Duration {
    vmcp_core::freshness(headers).unwrap_or(USUAL).clamp(*KEPT.start(), *KEPT.end())
}
