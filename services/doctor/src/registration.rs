//! Client identifier: from a metadata document, or by registration (RFC 7591).

use serde_json::{Value, json};
use url::Url;
use vmcp_core::HttpClient;

use crate::authorization_server::AuthorizationServer;
use crate::client::ClientQuirks;
use crate::exchange::{send, truncate};
use crate::report::{DiscoveryStopped, Report};

/// Returns the client identifier of the authorization request, if it is known.
pub(crate) async fn client_id(
    report: &mut Report,
    quirks: &ClientQuirks,
    http: &HttpClient,
    issuer: &AuthorizationServer,
    scopes: Option<&str>,
    registers: bool,
) -> Result<Option<String>, DiscoveryStopped> {
    let lists_none = issuer.methods.as_ref().is_some_and(|it| it.iter().any(|it| it == "none"));
    if let Some(document) = quirks.document.filter(|_| issuer.documents) {
        if lists_none || !quirks.document_requires_none_method {
            let found =
                format!("{document}; the server fetches it during the authorization request");
            report.pass("client_id is", found);
            return Ok(document.starts_with("https:").then(|| document.to_owned()));
        }
        let found = "metadata documents are supported, but token_endpoint_auth_methods_supported lacks none";
        let change = "list none: a client with a metadata document has no secret";
        report.note("client_id", found, Some(change));
    }
    let Some(url) = &issuer.registration else {
        let change = if quirks.document.is_some() {
            "set client_id_metadata_document_supported or registration_endpoint; otherwise users have to enter a \
                         client id that you issue"
        } else {
            "set registration_endpoint; otherwise users have to enter a client id that you issue"
        };
        return report.fail(
            "client_id",
            "neither documents nor registration are supported",
            change,
        );
    };
    let request = request(quirks, scopes);
    let what = format!("POST {url}");
    if !registers {
        report.note(what, format!("not sent: {request}"), None);
        return Ok(None);
    }
    register(report, http, url, &request, what).await.map(Some)
}

/// Builds the registration request.
fn request(quirks: &ClientQuirks, scopes: Option<&str>) -> Value {
    let native = quirks.redirect_uris.iter().any(|uri| !uri.starts_with("https:"));
    let mut request = json!({
        "client_name": quirks.name,
        "redirect_uris": quirks.redirect_uris,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": if native { "native" } else { "web" },
    });
    if let Some(scopes) = scopes {
        request["scope"] = scopes.into();
    }
    request
}

async fn register(
    report: &mut Report,
    http: &HttpClient,
    url: &Url,
    request: &Value,
    what: String,
) -> Result<String, DiscoveryStopped> {
    let response = match send(http, url, "application/json", Some(request)).await {
        Ok(response) => response,
        Err(error) => return report.fail(what, error, "make the endpoint reachable"),
    };
    let object = response.object().unwrap_or_default();
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    if !response.status.is_success() {
        // The two members of an OAuth error are meant to be displayed; any other may be secret.
        let error = text("error").unwrap_or("no error code");
        let description = text("error_description").unwrap_or_default();
        let found = format!("{}: {} {}", response.status, truncate(error), truncate(description));
        let change = format!("accept this registration: {request}");
        return report.fail(what, found.trim_end(), change);
    }
    let Some(id) = text("client_id") else {
        let change = "respond with a client_id (RFC 7591 section 3.2.1)";
        return report.fail(what, format!("{} without a client_id", response.status), change);
    };
    let registered = object.get("redirect_uris").and_then(Value::as_array);
    let requested = request["redirect_uris"].as_array();
    let missing = |registered: &Vec<Value>| {
        requested.into_iter().flatten().find(|it| !registered.contains(it))
    };
    if let Some(uri) = registered.and_then(missing) {
        let found = format!("{} without the redirect URI {uri}", response.status);
        return report.fail(what, found, "keep the redirect URIs, or reject the registration");
    }
    report.pass(what, format!("{}; client_id {}", response.status, truncate(id)));
    Ok(id.to_owned())
}
