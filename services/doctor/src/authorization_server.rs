//! Metadata of the authorization server (RFC 8414, OpenID Connect Discovery 1.0).

use http::StatusCode;
use serde_json::{Map, Value};
use url::Url;
use vmcp_core::HttpClient;

use crate::client::ClientQuirks;
use crate::exchange::{HttpResponse, is_safe, send, truncate};
use crate::report::{DiscoveryStopped, Report};

/// Authorization server as the client knows it.
#[derive(Debug)]
pub(crate) struct AuthorizationServer {
    pub(crate) authorization: Url,
    pub(crate) registration: Option<Url>,
    /// `true` if the URL of a metadata document is accepted as client identifier.
    pub(crate) documents: bool,
    /// Client authentication methods; `None` if the metadata does not list them.
    pub(crate) methods: Option<Vec<String>>,
    pub(crate) scopes: Option<Vec<String>>,
}

/// Finds and checks the metadata.
pub(crate) async fn find(
    report: &mut Report,
    quirks: &ClientQuirks,
    http: &HttpClient,
    issuer: &str,
) -> Result<AuthorizationServer, DiscoveryStopped> {
    let Ok(url) = Url::parse(issuer) else {
        let found = format!("{} is not a URL", truncate(issuer));
        return report.fail("the authorization server", found, "set its issuer, a URL");
    };
    for url in metadata_urls(&url) {
        let what = format!("GET {url}");
        let (finding, stops) = match send(http, &url, "application/json", None).await {
            Ok(response) if response.status == StatusCode::OK => match response.object() {
                Some(object) => return check_metadata(report, quirks, issuer, what, &object),
                None => ("not a JSON object".to_owned(), quirks.stops_on_server_error),
            },
            Ok(HttpResponse { status, .. }) => {
                (status.to_string(), status.is_server_error() && quirks.stops_on_server_error)
            }
            Err(error) => (error, false),
        };
        if stops {
            let change =
                "respond with the metadata, or with 404, so that the client tries the next URL";
            return report.fail(what, finding, change);
        }
        report.note(what, finding, None);
    }
    let found = format!("none of the URLs for {} has metadata", truncate(issuer));
    let change = "serve the metadata at the first of these URLs (RFC 8414 section 3.1)";
    report.fail("the authorization server's metadata", found, change)
}

/// Returns the metadata URLs of an issuer.
fn metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    let at = |path: String| {
        let mut url = issuer.clone();
        url.set_path(&path);
        url.set_query(None);
        url.set_fragment(None);
        url
    };
    paths.into_iter().map(at).collect()
}

fn check_metadata(
    report: &mut Report,
    quirks: &ClientQuirks,
    expected: &str,
    what: String,
    object: &Map<String, Value>,
) -> Result<AuthorizationServer, DiscoveryStopped> {
    let given = object.get("issuer").and_then(Value::as_str).unwrap_or_default();
    if given == expected || expected.strip_suffix('/') == Some(given) {
        report.pass(what, format!("issuer {}", truncate(given)));
    } else {
        let found = format!("issuer is {}, not {}", truncate(given), truncate(expected));
        let change = "use the same issuer, byte for byte, in authorization_servers and in this metadata \
                      (RFC 8414 section 3.3)";
        if quirks.compares_issuers || given.is_empty() {
            return report.fail(what, found, change);
        }
        report.note(what, found + "; other clients stop here", Some(change));
    }
    let authorization = endpoint(report, object, "authorization_endpoint")?;
    endpoint(report, object, "token_endpoint")?;
    let lists = |name: &str| {
        let list = object.get(name).and_then(Value::as_array)?;
        Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
    };
    for (name, value, required) in [
        ("response_types_supported", "code", true),
        ("grant_types_supported", "authorization_code", false),
        ("code_challenge_methods_supported", "S256", quirks.requires_s256),
    ] {
        supports(report, name, value, lists(name).as_deref(), required)?;
    }
    let registration = match object.get("registration_endpoint") {
        None | Some(Value::Null) => None,
        Some(_) => Some(endpoint(report, object, "registration_endpoint")?),
    };
    Ok(AuthorizationServer {
        authorization,
        registration,
        documents: object.get("client_id_metadata_document_supported") == Some(&Value::Bool(true)),
        methods: lists("token_endpoint_auth_methods_supported"),
        scopes: lists("scopes_supported"),
    })
}

fn supports(
    report: &mut Report,
    name: &str,
    value: &str,
    listed: Option<&[String]>,
    required: bool,
) -> Result<(), DiscoveryStopped> {
    let change = format!("list {value} in {name}");
    match listed {
        Some(listed) if listed.iter().any(|it| it == value) => report.pass(name, value),
        Some(listed) => {
            let found = format!("lists {}, not {value}", truncate(&listed.join(", ")));
            return report.fail(name, found, change);
        }
        None if required => return report.fail(name, "missing", change),
        // The default includes it (RFC 8414 section 2).
        None if value == "authorization_code" => {}
        None => report.note(name, "missing; MCP requires clients to reject that", Some(&change)),
    }
    Ok(())
}

fn endpoint(
    report: &mut Report,
    object: &Map<String, Value>,
    name: &str,
) -> Result<Url, DiscoveryStopped> {
    let Some(text) = object.get(name).and_then(Value::as_str) else {
        return report.fail(name, "missing", format!("set {name} in the metadata"));
    };
    match Url::parse(text) {
        Ok(url) if is_safe(&url) => {
            report.pass(name, truncate(text));
            Ok(url)
        }
        _ => {
            let change = "use an absolute https URL; http is allowed on loopback only";
            report.fail(name, truncate(text), change)
        }
    }
}
