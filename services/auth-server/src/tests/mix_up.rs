//! Tests for responses of another issuer than the one that the browser was sent to (RFC 9207, RFC 9700 section 4.4).

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body as AxumBody;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use serde_json::json;
use tower::service_fn;
use vmcp_core::Body;
use vmcp_upstream::{
    Client, Endpoint, Issuer, Kind, MemoryRegistrations, Oauth2, Oidc, Params, Provider, Scopes,
    Settings, StaticClient,
};

use crate::testing::{APP, TestEnv, UserAgent, param};
use crate::{Upstream, testing};

const PROVIDER: &str = "https://id.example";

/// Creates a provider that names its issuer in each response, and serves its metadata only.
fn provider(env: &TestEnv, name: &str, kind: Kind) -> Arc<dyn Upstream> {
    let http = service_fn(|request: Request<Body>| -> BoxFuture<'static, _> {
        let metadata = json!({
            "issuer": PROVIDER,
            "authorization_endpoint": format!("{PROVIDER}/authorize"),
            "token_endpoint": format!("{PROVIDER}/token"),
            "jwks_uri": format!("{PROVIDER}/keys"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        });
        assert!(request.uri().path().starts_with("/.well-known/"), "{}", request.uri());
        Box::pin(async move {
            let body = AxumBody::from(metadata.to_string());
            let response = Response::builder().header("content-type", "application/json");
            Ok::<_, Infallible>(response.body(body).unwrap())
        })
    });
    let settings = Settings {
        name: name.into(),
        kind,
        redirect_uri: Endpoint::new(&format!("https://as.example/back/{name}")).unwrap(),
        scopes: Scopes::new(["openid"]).unwrap(),
        params: Params::default(),
        client_name: "vmcp".into(),
    };
    let registrations = Arc::new(MemoryRegistrations);
    let provider = Provider::new(settings, http, http, registrations, env.clock.clone());
    Arc::new(provider.unwrap())
}

fn oidc() -> Kind {
    Kind::Oidc(Box::new(Oidc {
        issuer: Issuer::new(PROVIDER).unwrap(),
        client: StaticClient::new("us", None).unwrap(),
        user_info: None,
    }))
}

/// Returns a provider configured by its endpoints alone.
fn oauth2(at: &str) -> Kind {
    let endpoint = |path: &str| Endpoint::new(&format!("{at}{path}")).unwrap();
    Kind::Oauth2(Box::new(Oauth2 {
        authorization_endpoint: endpoint("/authorize"),
        token_endpoint: endpoint("/token"),
        client: Client::Static(StaticClient::new("us", None).unwrap()),
        token_mapping: None,
        user_info: None,
    }))
}

#[tokio::test]
async fn accepts_errors_only_from_expected_issuer() {
    let env = TestEnv::new();
    let env = TestEnv::with_providers(&env, vec![provider(&env, "corp", oidc())]);
    let client = env.client().await;
    let own = "the user cancelled the login at the identity provider";
    let foreign = "the login at the identity provider failed";
    for (said, iss, error, words) in [
        ("error=access_denied", Some(PROVIDER), "access_denied", own),
        (
            "error=temporarily_unavailable",
            Some(PROVIDER),
            "temporarily_unavailable",
            "the identity",
        ),
        ("error=invalid_scope", Some(PROVIDER), "server_error", "the identity"),
        // A response of a foreign issuer ends the login with `access_denied`, whatever error or code it has.
        ("error=access_denied", Some("https://evil.example"), "access_denied", foreign),
        ("error=temporarily_unavailable", Some("https://evil.example"), "access_denied", foreign),
        ("error=temporarily_unavailable", Some("https://id.example/"), "access_denied", foreign),
        ("error=invalid_scope", None, "access_denied", foreign),
        ("code=stolen", Some("https://evil.example"), "access_denied", foreign),
        ("code=stolen", None, "access_denied", foreign),
    ] {
        let mut browser = UserAgent::default();
        let to = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
        let to = url::Url::parse(&to).unwrap();
        assert_eq!(to.host_str(), Some("id.example"));
        let state = param(&to, "state").unwrap();
        let iss = iss.map(|iss| format!("&iss={iss}")).unwrap_or_default();
        let back = format!("/back/corp?{said}&state={state}{iss}");
        let answer = browser.get(&env, &back).await.location();
        assert!(answer.starts_with(APP), "{answer}");
        let answer = url::Url::parse(&answer).unwrap();
        let told = (param(&answer, "error").unwrap(), param(&answer, "error_description").unwrap());
        assert_eq!(told.0, error, "{said} {iss}");
        assert!(told.1.starts_with(words), "{said} {iss}: {}", told.1);
        assert_eq!(param(&answer, "iss").as_deref(), Some(testing::ISSUER));
        // The login has ended in both cases.
        assert_eq!(browser.get(&env, &back).await.status, 400);
    }
}

#[tokio::test]
async fn rejects_issuer_of_other_configured_provider() {
    let env = TestEnv::new();
    let client = env.client().await;
    for (at, mixed_up) in [("https://git.example", true), (PROVIDER, false)] {
        let first = provider(&env, "git", oauth2(at));
        let env = TestEnv::with_providers(&env, vec![first, provider(&env, "corp", oidc())]);
        let mut browser = UserAgent::default();
        let authorize = TestEnv::authorize(&client, &[("prompt", "consent")]);
        let to = env.consent(&mut browser, &authorize).await;
        assert!(to.starts_with(at), "{to}");
        let state = param(&url::Url::parse(&to).unwrap(), "state").unwrap();
        let back = format!("/back/git?error=access_denied&state={state}&iss={PROVIDER}");
        let answer = url::Url::parse(&browser.get(&env, &back).await.location()).unwrap();
        let words = param(&answer, "error_description").unwrap();
        assert_eq!(words.contains("cancelled"), !mixed_up, "{words}");
    }
}

/// A separate redirect URI for each provider is the defense for providers that do not name their issuer (RFC 9700 section
/// 4.4.2).
#[tokio::test]
async fn rejects_response_at_other_redirect_uri() {
    let env = TestEnv::new();
    let client = env.client().await;
    let providers =
        ["git", "lab"].map(|name| provider(&env, name, oauth2(&format!("https://{name}.example"))));
    let env = TestEnv::with_providers(&env, providers.to_vec());
    for (path, words) in [("/back/git", "cancelled"), ("/back/lab", "malformed")] {
        let mut browser = UserAgent::default();
        let to = env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
        let state = param(&url::Url::parse(&to).unwrap(), "state").unwrap();
        let back = format!("{path}?error=access_denied&state={state}");
        let answer = browser.get(&env, &back).await.client_redirect();
        let told = param(&answer, "error_description").unwrap();
        assert!(told.contains(words), "{path}: {told}");
    }
}
