//! Content of client metadata documents.

use std::time::SystemTime;

use serde_json::{Map, Value};
use url::{Host, Url};
use vmcp_auth_store::{ApplicationType, Client, ClientAuth, ClientId};

use crate::client_name::is_displayable;
use crate::redirect_uri::{RedirectKind, RedirectUri};
use crate::scope::Scopes;
use crate::settings::Settings;

/// Maximum size of a metadata document, in bytes.
pub const MAX_DOCUMENT: usize = 10 * 1024;

/// Maximum number of redirect URIs in a document.
const MAX_DOCUMENT_REDIRECT_URIS: usize = 32;

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

/// Scopes available to a client with a metadata document.
#[derive(Clone)]
pub(super) struct ClientScopes {
    scopes: Scopes,
    baseline: Scopes,
}

impl ClientScopes {
    pub(super) fn from_settings(settings: &Settings) -> Self {
        Self { scopes: settings.scopes.clone(), baseline: settings.baseline_scopes.clone() }
    }
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

/// Parses a document. Unsupported grant and response types are ignored if the required ones are listed.
pub(super) fn parse_document(
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
    let name = text(&document, "client_name").filter(|name| is_displayable(name));
    let name = name.ok_or_else(content("client_name is missing or malformed"))?;
    let uris = redirect_uris(&document)?;
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
            "scope is malformed: use space-separated scopes of at most 256 characters",
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

/// Returns the redirect URIs that this server accepts.
fn redirect_uris(document: &Map<String, Value>) -> Result<Vec<&str>, ClientMetadataError> {
    let content = |words| move || ClientMetadataError::Content(words);
    let uris = strings(document, "redirect_uris")
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
    Ok(uris)
}

fn text<'a>(document: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    document.get(name).and_then(Value::as_str)
}

fn strings<'a>(document: &'a Map<String, Value>, name: &str) -> Option<Vec<&'a str>> {
    document.get(name)?.as_array()?.iter().map(Value::as_str).collect()
}
