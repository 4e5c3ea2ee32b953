//! Metadata of the resource (RFC 9728): its authorization server and scopes.

use http::StatusCode;
use serde_json::{Map, Value};
use url::Url;
use vmcp_core::HttpClient;

use crate::challenge::{self, BearerChallenge};
use crate::client::{ClientQuirks, ResourceMatch};
use crate::exchange::{HttpResponse, is_loopback, is_safe, send, truncate};
use crate::report::{DiscoveryStopped, Report};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Server as the client knows it.
#[derive(Debug)]
pub(crate) struct ProtectedResource {
    /// Issuer of its authorization server, as written.
    pub(crate) issuer: String,
    /// Resource that tokens are requested for (RFC 8707).
    pub(crate) indicator: Option<String>,
    /// Requested scopes, with their source.
    pub(crate) scopes: Option<(String, &'static str)>,
}

/// Sends a request without a token, and returns the challenge.
pub(crate) async fn request_challenge(
    report: &mut Report,
    quirks: &ClientQuirks,
    http: &HttpClient,
    server: &Url,
) -> Result<BearerChallenge, DiscoveryStopped> {
    let what = format!("POST {server}");
    check_reachable(report, quirks, server)?;
    let initialize = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "vmcp-doctor", "version": env!("CARGO_PKG_VERSION")},
        },
    });
    let accept = "application/json, text/event-stream";
    let HttpResponse { status, headers, body: _ } =
        match send(http, server, accept, Some(&initialize)).await {
            Ok(response) => response,
            Err(error) => {
                return report.fail(what, error, "make the server reachable at this URL");
            }
        };
    let challenges = status == StatusCode::UNAUTHORIZED
        || (status == StatusCode::FORBIDDEN && quirks.accepts_forbidden_challenge);
    if !challenges {
        let change = match status.as_u16() {
            200..=299 => "respond with 401 to requests without a token, or expect no login",
            403 => "respond with 401, not 403, to requests without a token",
            404 | 405 => "use the URL of the server's MCP endpoint, which accepts POST",
            _ => "respond with 401 to requests without a token",
        };
        return report.fail(what, status.to_string(), change);
    }
    let Some(bearer) = challenge::parse_bearer_challenge(&headers) else {
        let change =
            "send WWW-Authenticate: Bearer resource_metadata=\"URL\" (RFC 9728 section 5.1)";
        report.note(what, format!("{status} without a bearer challenge"), Some(change));
        return Ok(BearerChallenge::default());
    };
    match bearer.resource_metadata.as_deref() {
        None => {
            let change = "add the metadata's URL to the challenge, as resource_metadata=\"URL\"";
            report.note(what, format!("{status}; the challenge has no metadata URL"), Some(change));
            Ok(bearer)
        }
        Some(named) if Url::parse(named).is_ok() => {
            report.pass(what, format!("{status}; metadata at {}", truncate(named)));
            Ok(bearer)
        }
        Some(named) => {
            let found =
                format!("{status}; resource_metadata is not an absolute URL: {}", truncate(named));
            let change = "use an absolute URL, with scheme and host";
            if quirks.rejects_relative_metadata_url {
                return report.fail(what, found, change);
            }
            report.note(what, found, Some(change));
            Ok(BearerChallenge { resource_metadata: None, ..bearer })
        }
    }
}

/// Checks that the client can reach the server.
fn check_reachable(
    report: &mut Report,
    quirks: &ClientQuirks,
    server: &Url,
) -> Result<(), DiscoveryStopped> {
    if quirks.is_hosted && is_loopback(server) {
        let found = format!("{} runs on the internet and cannot reach {server}", quirks.name);
        report.note("server URL", found, Some("use a public address for this client"));
    } else if quirks.is_hosted && server.scheme() != "https" {
        let found = format!("{} accepts https only", quirks.name);
        return report.fail("server URL", found, "serve it over https");
    }
    Ok(())
}

/// Finds and checks the metadata of the resource.
pub(crate) async fn find(
    report: &mut Report,
    quirks: &ClientQuirks,
    http: &HttpClient,
    server: &Url,
    bearer: BearerChallenge,
) -> Result<ProtectedResource, DiscoveryStopped> {
    let named = bearer.resource_metadata.as_deref().and_then(|text| Url::parse(text).ok());
    let urls = named.clone().map_or_else(|| metadata_urls(server), |url| vec![url]);
    let mut found = None;
    for url in urls {
        let what = format!("GET {url}");
        let (finding, stops) = match send(http, &url, "application/json", None).await {
            Ok(response) if response.status == StatusCode::OK => match response.object() {
                Some(object) if object.get("resource").is_some_and(Value::is_string) => {
                    found = Some((what, object));
                    break;
                }
                Some(_) => ("no resource member".to_owned(), quirks.stops_on_server_error),
                None => ("not a JSON object".to_owned(), quirks.stops_on_server_error),
            },
            Ok(HttpResponse { status, .. }) => {
                (status.to_string(), status.is_server_error() && quirks.stops_on_server_error)
            }
            Err(error) => (error, false),
        };
        if named.is_some() || stops {
            let change = if named.is_some() {
                "serve the metadata of RFC 9728 at the URL in the challenge"
            } else {
                "respond with the metadata of RFC 9728, or with 404"
            };
            return report.fail(what, finding, change);
        }
        report.note(what, finding, None);
    }
    let Some((what, object)) = found else {
        return fall_back_to_origin(report, quirks, server, bearer);
    };
    check_metadata(report, quirks, server, bearer, &what, &object)
}

/// Returns the well-known metadata URLs (RFC 9728 section 3.1).
fn metadata_urls(server: &Url) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let at = |path: &str| {
        let mut url = server.clone();
        url.set_path(path);
        url.set_query(None);
        url.set_fragment(None);
        url
    };
    let mut urls = vec![at(&format!("{WELL_KNOWN}{path}"))];
    if !path.is_empty() {
        urls.push(at(WELL_KNOWN));
    }
    urls
}

/// Uses the server's origin as issuer, as clients of MCP 2025-03-26 do without metadata.
fn fall_back_to_origin(
    report: &mut Report,
    quirks: &ClientQuirks,
    server: &Url,
    bearer: BearerChallenge,
) -> Result<ProtectedResource, DiscoveryStopped> {
    let what = "the resource's metadata";
    let change = "serve the metadata of RFC 9728 and add its URL to the challenge";
    if !quirks.falls_back_without_metadata {
        return report.fail(what, "not found", change);
    }
    let issuer = server.origin().ascii_serialization();
    let found = format!("not found; the client uses {issuer} as the authorization server");
    report.note(what, found, Some(change));
    let scopes = bearer.scope.map(|scope| (scope, "the challenge"));
    Ok(ProtectedResource { issuer, indicator: None, scopes })
}

fn check_metadata(
    report: &mut Report,
    quirks: &ClientQuirks,
    server: &Url,
    bearer: BearerChallenge,
    what: &str,
    object: &Map<String, Value>,
) -> Result<ProtectedResource, DiscoveryStopped> {
    let resource = object.get("resource").and_then(Value::as_str).unwrap_or_default();
    let matches = Url::parse(resource).is_ok_and(|url| match quirks.resource {
        ResourceMatch::Exact => url == *server,
        ResourceMatch::Covers => covers(&url, server),
    });
    if !matches {
        let found = format!("resource is {}", truncate(resource));
        return report.fail(
            what,
            found,
            format!("set resource to {server}, the URL that users enter"),
        );
    }
    let mut servers = object.get("authorization_servers").and_then(Value::as_array).into_iter();
    let mut servers = servers.by_ref().flatten().filter_map(Value::as_str);
    let Some(issuer) = servers.next() else {
        let change = "list the issuer of the authorization server in authorization_servers";
        return report.fail(what, "no authorization server listed", change);
    };
    if !Url::parse(issuer).is_ok_and(|url| is_safe(&url)) {
        let found = format!("the authorization server is {}", truncate(issuer));
        let change = "use an https URL in authorization_servers; http is allowed on loopback only";
        return report.fail(what, found, change);
    }
    report.pass(
        what,
        format!("resource {}, authorization server {}", truncate(resource), truncate(issuer)),
    );
    if servers.next().is_some() {
        report.note("authorization_servers", "several listed; the client uses the first", None);
    }
    let listed = object
        .get("scopes_supported")
        .and_then(Value::as_array)
        .map(|scopes| scopes.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    let scopes = bearer.scope.map(|scope| (scope, "the challenge"));
    let scopes = scopes.or(listed.filter(|it| !it.is_empty()).map(|it| (it, "scopes_supported")));
    Ok(ProtectedResource {
        issuer: issuer.to_owned(),
        indicator: Some(resource.to_owned()),
        scopes,
    })
}

/// Returns whether a resource is the server or an ancestor of it.
fn covers(resource: &Url, server: &Url) -> bool {
    let folder = |path: &str| format!("{}/", path.trim_end_matches('/'));
    resource.origin() == server.origin()
        && folder(server.path()).starts_with(&folder(resource.path()))
}
