//! Discovery steps, in the order of the clients.

use form_urlencoded::Serializer;
use url::Url;
use vmcp_core::HttpClient;

use crate::authorization_server::AuthorizationServer;
use crate::report::{DiscoveryStopped, Report};
use crate::resource::ProtectedResource;
use crate::{Client, authorization_server, registration, resource};

/// Replays the discovery of `client` up to the browser, starting from the URL that a user enters.
/// `http` sends single requests to the URLs in the server's documents. With `registers`, the client
/// registers at the authorization server if it would; otherwise the report shows its request.
///
/// Each response is read up to 256 KiB; timeouts are those of `http`.
pub async fn examine(
    http: impl Into<HttpClient>,
    client: Client,
    server: &Url,
    registers: bool,
) -> Report {
    let mut report = Report { client, server: server.to_string(), steps: Vec::new() };
    // The report has the step at which the discovery stopped.
    _ = steps(&mut report, &http.into(), server, registers).await;
    report
}

async fn steps(
    report: &mut Report,
    http: &HttpClient,
    server: &Url,
    registers: bool,
) -> Result<(), DiscoveryStopped> {
    let quirks = report.client.quirks();
    let bearer = resource::request_challenge(report, &quirks, http, server).await?;
    let found = resource::find(report, &quirks, http, server, bearer).await?;
    let issuer = authorization_server::find(report, &quirks, http, &found.issuer).await?;
    scopes(report, &found, &issuer);
    let requested_scopes = found.scopes.as_ref().map(|(scopes, _)| scopes.as_str());
    let id = registration::client_id(report, &quirks, http, &issuer, requested_scopes, registers)
        .await?;
    let redirect_uri = quirks.redirect_uris.last().copied().unwrap_or_default();
    report.pass(
        "authorization request",
        authorization_url(&issuer, &found, id.as_deref(), redirect_uri),
    );
    Ok(())
}

fn scopes(report: &mut Report, found: &ProtectedResource, issuer: &AuthorizationServer) {
    let Some((requested, source)) = &found.scopes else {
        let finding = "none requested: neither the challenge nor the resource's metadata lists any";
        report.note("scopes", finding, None);
        return;
    };
    let known = issuer.scopes.as_deref();
    let unknown = |scope: &&str| known.is_some_and(|known| known.iter().all(|it| it != scope));
    let unknown: Vec<_> = requested.split(' ').filter(unknown).collect();
    if unknown.is_empty() {
        report.pass("scopes", format!("{requested}, from {source}"));
    } else {
        let finding = format!(
            "{requested}, from {source}; the authorization server does not list {}",
            unknown.join(" ")
        );
        let change = "issue these scopes, and list them in scopes_supported";
        report.note("scopes", finding, Some(change));
    }
}

/// Returns the authorization URL, without its random parameters.
fn authorization_url(
    issuer: &AuthorizationServer,
    found: &ProtectedResource,
    id: Option<&str>,
    redirect_uri: &str,
) -> String {
    let mut query = Serializer::new(String::new());
    query.append_pair("response_type", "code");
    query.append_pair("client_id", id.unwrap_or("CLIENT_ID"));
    query.append_pair("redirect_uri", redirect_uri);
    query.append_pair("code_challenge_method", "S256");
    if let Some((scopes, _)) = &found.scopes {
        query.append_pair("scope", scopes);
    }
    if let Some(resource) = &found.indicator {
        query.append_pair("resource", resource);
    }
    let separator = if issuer.authorization.query().is_some() { '&' } else { '?' };
    format!("{}{separator}{}", issuer.authorization, query.finish())
}
