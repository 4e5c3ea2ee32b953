//! How a client gets a client id: it is known by a document, or registers (RFC 7591).

use serde_json::{Value, json};
use url::Url;
use vmcp_core::HttpClient;

use crate::authorization_server::AuthorizationServer;
use crate::client::ClientQuirks;
use crate::exchange::{send, truncate};
use crate::report::{DiscoveryStopped, Report};

/// What the client calls itself when it asks for authorization, where that is known.
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
            let found = format!("{document}; the server fetches it when the person arrives");
            report.pass("client_id is", found);
            return Ok(document.starts_with("https:").then(|| document.to_owned()));
        }
        let found =
            "documents are supported, but token_endpoint_auth_methods_supported has no none";
        let change = "list none there: a client that is known by a document has no secret";
        report.note("client_id", found, Some(change));
    }
    let Some(place) = &issuer.registration else {
        let change = if quirks.document.is_some() {
            "set client_id_metadata_document_supported or registration_endpoint; else people have to be given a \
             client id to type in"
        } else {
            "set registration_endpoint; else people have to be given a client id to type in"
        };
        return report.fail("client_id", "there is no way to get one", change);
    };
    let request = request(quirks, scopes);
    let what = format!("POST {place}");
    if !registers {
        report.note(what, format!("not sent: {request}"), None);
        return Ok(None);
    }
    register(report, http, place, &request, what).await.map(Some)
}

/// What the client registers.
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
    place: &Url,
    request: &Value,
    what: String,
) -> Result<String, DiscoveryStopped> {
    let answer = match send(http, place, "application/json", Some(request)).await {
        Ok(answer) => answer,
        Err(why) => return report.fail(what, why, "let the endpoint answer"),
    };
    let object = answer.object().unwrap_or_default();
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    if !answer.status.is_success() {
        // An error has two members that are meant to be read; whatever else is there is not shown.
        let error = text("error").unwrap_or("no error code");
        let words = text("error_description").unwrap_or_default();
        let found = format!("{}: {} {}", answer.status, truncate(error), truncate(words));
        let change = format!("let the server register this: {request}");
        return report.fail(what, found.trim_end(), change);
    }
    let Some(id) = text("client_id") else {
        let change = "answer with a client_id (RFC 7591 section 3.2.1)";
        return report.fail(what, format!("{} without a client_id", answer.status), change);
    };
    let kept = object.get("redirect_uris").and_then(Value::as_array);
    let asked = request["redirect_uris"].as_array();
    let lost = |kept: &Vec<Value>| asked.into_iter().flatten().find(|it| !kept.contains(it));
    if let Some(lost) = kept.and_then(lost) {
        let found = format!("{} without the redirect URI {lost}", answer.status);
        return report.fail(what, found, "keep the redirect URIs, or refuse the registration");
    }
    report.pass(what, format!("{}; client_id {}", answer.status, truncate(id)));
    Ok(id.to_owned())
}
