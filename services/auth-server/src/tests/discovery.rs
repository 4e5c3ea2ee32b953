//! Tests for the discovery documents and for settings that prevent the start.

use std::sync::Arc;

use serde_json::Value;
use vmcp_auth_store::{Limits, MemoryStore};
use vmcp_core::Clock;

use crate::testing::{TestEnv, settings};
use crate::{AuthServer, IssuerUrl, Scopes, StartError, Upstream};

#[tokio::test]
async fn discovery_documents_list_capabilities() {
    let env = TestEnv::new();
    for path in ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"] {
        let response = env.get(path).await;
        assert_eq!(
            (response.status.as_u16(), &response.headers["content-type"]),
            (200, &"application/json".parse().unwrap())
        );
        assert_eq!(response.headers["access-control-allow-origin"], "*");
        let document = response.json();
        for (member, value) in [
            ("issuer", "https://as.example"),
            ("authorization_endpoint", "https://as.example/oauth/authorize"),
            ("token_endpoint", "https://as.example/oauth/token"),
            ("registration_endpoint", "https://as.example/oauth/register"),
            ("revocation_endpoint", "https://as.example/oauth/revoke"),
            ("jwks_uri", "https://as.example/.well-known/jwks.json"),
        ] {
            assert_eq!(document[member], value);
        }
        assert_eq!(document["response_types_supported"], serde_json::json!(["code"]));
        assert_eq!(document["code_challenge_methods_supported"], serde_json::json!(["S256"]));
        assert_eq!(document["authorization_response_iss_parameter_supported"], true);
        assert_eq!(document["client_id_metadata_document_supported"], false);
        assert!(
            document["scopes_supported"].as_array().unwrap().contains(&"offline_access".into())
        );
        assert_eq!(
            document.get("userinfo_endpoint").is_some(),
            path.ends_with("openid-configuration")
        );
    }
    let keys = env.get("/.well-known/jwks.json").await.json();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn serves_discovery_around_issuer_path() {
    let mut settings = settings();
    settings.issuer = IssuerUrl::parse("https://as.example/tenant").unwrap();
    settings.authorization_base = Some(IssuerUrl::parse("https://as.example").unwrap());
    let env = TestEnv::with(settings, Limits::default());
    for path in [
        "/.well-known/oauth-authorization-server/tenant",
        "/.well-known/openid-configuration/tenant",
        "/tenant/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server",
    ] {
        let document: Value = env.get(path).await.json();
        assert_eq!(document["issuer"], "https://as.example/tenant", "{path}");
        assert_eq!(document["authorization_endpoint"], "https://as.example/oauth/authorize");
        assert_eq!(document["token_endpoint"], "https://as.example/tenant/oauth/token");
    }
    assert_eq!(env.post("/tenant/oauth/token", &[]).await.status, 400);
    assert_eq!(env.post("/oauth/token", &[]).await.status, 404);
    for path in ["/oauth/authorize", "/tenant/oauth/authorize"] {
        assert_eq!(env.get(path).await.status, 400);
    }
    assert_eq!(env.get("/.well-known/openid-configuration/other").await.status, 404);
}

#[tokio::test]
async fn allows_cors_only_where_cookies_are_ignored() {
    let env = TestEnv::new();
    for (path, open) in [
        ("/oauth/token", true),
        ("/oauth/register", true),
        ("/oauth/revoke", true),
        ("/oauth/userinfo", true),
        ("/oauth/authorize", false),
        ("/oauth/consent", false),
        ("/oauth/connections", false),
    ] {
        let request = http::Request::options(path).body(axum::body::Body::empty()).unwrap();
        let response = env.send(request).await;
        assert_eq!(response.headers.contains_key("access-control-allow-origin"), open, "{path}");
    }
}

#[tokio::test]
async fn cors_preflight_lists_methods_and_headers() {
    let env = TestEnv::new();
    let request = http::Request::options("/oauth/token")
        .header("origin", "https://app.example")
        .header("access-control-request-method", "POST");
    let response = env.send(request.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!(response.status, 204);
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", "GET,POST,OPTIONS"),
        ("access-control-allow-headers", "authorization,content-type,mcp-protocol-version"),
        ("access-control-max-age", "86400"),
    ] {
        assert_eq!(response.headers[name], value);
    }
    let document = env.get("/.well-known/openid-configuration").await;
    assert_eq!(document.headers["access-control-expose-headers"], "www-authenticate,retry-after");
    // The response is the same for each origin, so caches need not tell them apart.
    assert!(!document.headers.contains_key("vary"), "{:?}", document.headers);
    // Scripts can read errors too.
    let refused = env.get("/oauth/token").await;
    assert_eq!(
        (refused.status.as_u16(), &refused.headers["access-control-allow-origin"]),
        (405, &"*".parse().unwrap())
    );
}

#[test]
fn rejects_contradictory_settings_at_start() {
    let env = TestEnv::new();
    let start = |settings, upstreams: Vec<Arc<dyn Upstream>>| {
        let clock = Clock::system();
        let store = Arc::new(MemoryStore::new(Limits::default(), clock.clone()));
        AuthServer::new(settings, store, upstreams, clock).map(drop)
    };
    let corp = || Arc::clone(&env.corp) as Arc<dyn Upstream>;
    assert_eq!(start(settings(), vec![]), Err(StartError::NoProvider));
    assert_eq!(
        start(settings(), vec![corp(), corp()]),
        Err(StartError::DuplicateName("corp".into()))
    );
    let mut baseline = settings();
    baseline.baseline_scopes = Scopes::parse("openid admin").unwrap();
    assert_eq!(
        start(baseline, vec![corp()]),
        Err(StartError::UnsupportedBaselineScope("admin".into()))
    );
    let mut elsewhere = settings();
    elsewhere.authorization_base = Some(IssuerUrl::parse("https://login.example").unwrap());
    assert_eq!(start(elsewhere, vec![corp()]), Ok(()));
    let mut elsewhere = settings();
    elsewhere.issuer = IssuerUrl::parse("https://login.example").unwrap();
    let cause = start(elsewhere, vec![corp()]).unwrap_err();
    assert_eq!(
        cause.to_string(),
        "redirect URI of upstream provider corp has the unknown origin https://as.example; use the origin of the \
         authorization endpoint, https://login.example, of the issuer, or of a resource"
    );
    assert_eq!(start(settings(), vec![corp()]), Ok(()));
}
