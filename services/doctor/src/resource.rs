//! The metadata of the resource (RFC 9728): which authorization server a client is sent to, and what for.

use http::StatusCode;
use serde_json::{Map, Value};
use url::Url;
use vmcp_core::HttpClient;

use crate::challenge::{self, BearerChallenge};
use crate::client::{ClientQuirks, ResourceMatch};
use crate::exchange::{HttpResponse, is_loopback, is_safe, send, truncate};
use crate::report::{DiscoveryStopped, Report};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What the client knows of the server by now.
#[derive(Debug)]
pub(crate) struct ProtectedResource {
    /// Its authorization server, as it is written.
    pub(crate) issuer: String,
    /// What tokens are asked for (RFC 8707).
    pub(crate) indicator: Option<String>,
    /// The scopes that are asked for, and who names them.
    pub(crate) scopes: Option<(String, &'static str)>,
}

/// Asks the server without a token, as a client that has none yet.
pub(crate) async fn request_challenge(
    report: &mut Report,
    quirks: &ClientQuirks,
    http: &HttpClient,
    server: &Url,
) -> Result<BearerChallenge, DiscoveryStopped> {
    let what = format!("POST {server}");
    check_reachable(report, quirks, server)?;
    let hello = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "vmcp-doctor", "version": env!("CARGO_PKG_VERSION")},
        },
    });
    let accept = "application/json, text/event-stream";
    let HttpResponse { status, headers, body: _ } =
        match send(http, server, accept, Some(&hello)).await {
            Ok(answer) => answer,
            Err(why) => {
                return report.fail(what, why, "let the server answer at this address");
            }
        };
    let challenges = status == StatusCode::UNAUTHORIZED
        || (status == StatusCode::FORBIDDEN && quirks.accepts_forbidden_challenge);
    if !challenges {
        let change = match status.as_u16() {
            200..=299 => "answer 401 to requests without a token, or expect no login",
            403 => "answer 401, not 403, to requests without a token",
            404 | 405 => "name the address of the server's MCP endpoint; it takes POST",
            _ => "answer 401 to requests without a token",
        };
        return report.fail(what, status.to_string(), change);
    }
    let Some(bearer) = challenge::parse_bearer_challenge(&headers) else {
        let change =
            "send WWW-Authenticate: Bearer resource_metadata=\"URL\" along (RFC 9728 section 5.1)";
        report.note(what, format!("{status} without a challenge for a bearer token"), Some(change));
        return Ok(BearerChallenge::default());
    };
    match bearer.resource_metadata.as_deref() {
        None => {
            let change =
                "name the metadata's address in the challenge, as resource_metadata=\"URL\"";
            report.note(what, format!("{status}; the challenge names no metadata"), Some(change));
            Ok(bearer)
        }
        Some(named) if Url::parse(named).is_ok() => {
            report.pass(what, format!("{status}; the metadata is at {}", truncate(named)));
            Ok(bearer)
        }
        Some(named) => {
            let found =
                format!("{status}; resource_metadata is no absolute URL: {}", truncate(named));
            let change = "write an absolute URL there, with scheme and host";
            if quirks.rejects_relative_metadata_url {
                return report.fail(what, found, change);
            }
            report.note(what, found, Some(change));
            Ok(BearerChallenge { resource_metadata: None, ..bearer })
        }
    }
}

/// Whether the client can come there at all.
fn check_reachable(
    report: &mut Report,
    quirks: &ClientQuirks,
    server: &Url,
) -> Result<(), DiscoveryStopped> {
    if quirks.is_hosted && is_loopback(server) {
        let found = format!("{} runs on the internet and does not reach {server}", quirks.name);
        report.note(
            "the address",
            found,
            Some("give it a public address before it is used from there"),
        );
    } else if quirks.is_hosted && server.scheme() != "https" {
        let found = format!("{} asks over https only", quirks.name);
        return report.fail("the address", found, "serve it over https");
    }
    Ok(())
}

/// Finds the metadata of the resource and reads it.
pub(crate) async fn find(
    report: &mut Report,
    quirks: &ClientQuirks,
    http: &HttpClient,
    server: &Url,
    bearer: BearerChallenge,
) -> Result<ProtectedResource, DiscoveryStopped> {
    let named = bearer.resource_metadata.as_deref().and_then(|text| Url::parse(text).ok());
    let places = named.clone().map_or_else(|| metadata_urls(server), |place| vec![place]);
    let mut found = None;
    for place in places {
        let what = format!("GET {place}");
        let (says, ends) = match send(http, &place, "application/json", None).await {
            Ok(answer) if answer.status == StatusCode::OK => match answer.object() {
                Some(object) if object.get("resource").is_some_and(Value::is_string) => {
                    found = Some((what, object));
                    break;
                }
                Some(_) => ("it names no resource".to_owned(), quirks.stops_on_server_error),
                None => ("it is no JSON object".to_owned(), quirks.stops_on_server_error),
            },
            Ok(HttpResponse { status, .. }) => {
                (status.to_string(), status.is_server_error() && quirks.stops_on_server_error)
            }
            Err(why) => (why, false),
        };
        if named.is_some() || ends {
            let change = if named.is_some() {
                "serve the metadata of RFC 9728 at the address that the challenge names"
            } else {
                "answer with the metadata of RFC 9728, or with 404"
            };
            return report.fail(what, says, change);
        }
        report.note(what, says, None);
    }
    let Some((what, object)) = found else {
        return fall_back_to_origin(report, quirks, server, bearer);
    };
    check_metadata(report, quirks, server, bearer, &what, &object)
}

/// Where the metadata is if nobody says where (RFC 9728 section 3.1).
fn metadata_urls(server: &Url) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let at = |path: &str| {
        let mut place = server.clone();
        place.set_path(path);
        place.set_query(None);
        place.set_fragment(None);
        place
    };
    let mut places = vec![at(&format!("{WELL_KNOWN}{path}"))];
    if !path.is_empty() {
        places.push(at(WELL_KNOWN));
    }
    places
}

/// The server without metadata is its own authorization server, for clients that remember MCP 2025-03-26.
fn fall_back_to_origin(
    report: &mut Report,
    quirks: &ClientQuirks,
    server: &Url,
    bearer: BearerChallenge,
) -> Result<ProtectedResource, DiscoveryStopped> {
    let what = "the resource's metadata";
    let change = "serve the metadata of RFC 9728 and name its address in the challenge";
    if !quirks.falls_back_without_metadata {
        return report.fail(what, "there is none", change);
    }
    let issuer = server.origin().ascii_serialization();
    let found = format!("there is none; the client takes {issuer} for the authorization server");
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
            format!("name {server} as the resource, as it is typed into the client"),
        );
    }
    let mut servers = object.get("authorization_servers").and_then(Value::as_array).into_iter();
    let mut servers = servers.by_ref().flatten().filter_map(Value::as_str);
    let Some(issuer) = servers.next() else {
        let change = "list the issuer of the authorization server in authorization_servers";
        return report.fail(what, "it names no authorization server", change);
    };
    if !Url::parse(issuer).is_ok_and(|url| is_safe(&url)) {
        let found = format!("the authorization server is {}", truncate(issuer));
        let change = "name an https URL in authorization_servers; http is for loopback alone";
        return report.fail(what, found, change);
    }
    report.pass(
        what,
        format!("resource {}, authorization server {}", truncate(resource), truncate(issuer)),
    );
    if servers.next().is_some() {
        report.note("authorization_servers", "there are several; the client takes the first", None);
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

/// Whether a resource is the server or above it.
fn covers(resource: &Url, server: &Url) -> bool {
    let folder = |path: &str| format!("{}/", path.trim_end_matches('/'));
    resource.origin() == server.origin()
        && folder(server.path()).starts_with(&folder(resource.path()))
}
