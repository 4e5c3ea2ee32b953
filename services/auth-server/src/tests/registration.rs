//! Tests for the registration endpoint.

use http::Request;
use serde_json::{Value, json};
use vmcp_auth_store::Limits;

use crate::testing::{APP, LOOPBACK, TestEnv, settings};
use crate::{Rate, RateLimits, Scopes};

#[tokio::test]
async fn registration_response_lists_client_metadata() {
    let mut settings = settings();
    settings.baseline_scopes = Scopes::parse("openid offline_access").unwrap();
    let env = TestEnv::with(settings, Limits::default());
    let response = env
        .register(json!({
            "redirect_uris": [APP, LOOPBACK], "client_name": "Editor", "scope": "email",
            "grant_types": ["refresh_token", "authorization_code"], "software_id": "editor", "application_type": "native",
            "logo_uri": "https://app.example/logo.png", "contacts": [],
        }))
        .await;
    assert_eq!(
        (response.status.as_u16(), &response.headers["cache-control"]),
        (201, &"no-store".parse().unwrap())
    );
    let registered = response.json();
    assert_eq!(registered["client_id"].as_str().unwrap().len(), 36);
    for (member, value) in [
        ("redirect_uris", json!([APP, LOOPBACK])),
        ("client_name", json!("Editor")),
        ("scope", json!("email openid offline_access")),
        ("grant_types", json!(["authorization_code", "refresh_token"])),
        ("response_types", json!(["code"])),
        ("token_endpoint_auth_method", json!("none")),
        ("application_type", json!("native")),
        ("software_id", json!("editor")),
        ("client_id_issued_at", json!(crate::testing::NOW)),
        ("client_secret", Value::Null),
    ] {
        assert_eq!(registered[member], value, "{member}");
    }
}

#[tokio::test]
async fn registration_fills_in_defaults() {
    let env = TestEnv::new();
    let registered = env.register(json!({"redirect_uris": [LOOPBACK]})).await.json();
    assert_eq!(registered["scope"], "openid profile email offline_access");
    assert_eq!(registered["grant_types"], json!(["authorization_code"]));
    assert_eq!(registered["application_type"], "native");
    let basic =
        json!({"redirect_uris": [APP], "token_endpoint_auth_method": "client_secret_basic"});
    let registered = env.register(basic).await.json();
    assert_eq!(registered["client_secret"].as_str().unwrap().len(), 43);
    assert_eq!(registered["client_secret_expires_at"], 0);
    assert_eq!(registered["application_type"], "web");
    for blank in ["", " "] {
        let blank = json!({"redirect_uris": [APP], "client_name": blank, "scope": ""});
        let registered = env.register(blank).await.json();
        assert!(registered.get("client_name").is_none(), "{registered}");
        assert_eq!(registered["scope"], "openid profile email offline_access");
    }
}

#[tokio::test]
async fn registration_omits_unsupported_values() {
    let env = TestEnv::new();
    let device = "urn:ietf:params:oauth:grant-type:device_code";
    let document = json!({
        "redirect_uris": [APP], "grant_types": ["authorization_code", device, "implicit"],
        "response_types": ["code", "token"],
    });
    let registered = env.register(document).await.json();
    assert_eq!(registered["grant_types"], json!(["authorization_code"]));
    assert_eq!(registered["response_types"], json!(["code"]));
}

#[tokio::test]
async fn rejects_invalid_metadata_with_error_code() {
    let env = TestEnv::new();
    let with = |member: &str, value: Value| {
        let mut document = json!({"redirect_uris": [APP]});
        document[member] = value;
        document
    };
    let eleven: Vec<_> = (0..11).map(|at| format!("https://app.example/{at}")).collect();
    let long = format!("https://app.example/{}", "a".repeat(2029));
    for (document, error) in [
        (json!({}), "invalid_redirect_uri"),
        (with("redirect_uris", json!([])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(eleven)), "invalid_redirect_uri"),
        (with("redirect_uris", json!(APP)), "invalid_redirect_uri"),
        (with("redirect_uris", json!([1])), "invalid_redirect_uri"),
        (with("redirect_uris", json!([long])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(["http://app.example/cb"])), "invalid_redirect_uri"),
        (with("redirect_uris", json!([APP, "javascript:alert(1)"])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(["data:text/html,x"])), "invalid_redirect_uri"),
        (with("redirect_uris", json!(["file:///x"])), "invalid_redirect_uri"),
        (with("scope", json!("admin")), "invalid_client_metadata"),
        (with("scope", json!(["openid", "admin"])), "invalid_client_metadata"),
        (with("scope", json!(7)), "invalid_client_metadata"),
        (with("grant_types", json!(["client_credentials"])), "invalid_client_metadata"),
        (with("grant_types", json!(["refresh_token"])), "invalid_client_metadata"),
        (with("response_types", json!(["token"])), "invalid_client_metadata"),
        (with("token_endpoint_auth_method", json!("private_key_jwt")), "invalid_client_metadata"),
        (with("application_type", json!("browser")), "invalid_client_metadata"),
        (with("client_name", json!("a\u{202e}b")), "invalid_client_metadata"),
        (with("client_name", json!("a\u{0}b")), "invalid_client_metadata"),
        (with("client_name", json!("a\nb")), "invalid_client_metadata"),
        (with("client_name", json!("x".repeat(257))), "invalid_client_metadata"),
        (with("client_name", json!({})), "invalid_client_metadata"),
        (with("software_id", json!("ü")), "invalid_client_metadata"),
    ] {
        let response = env.register(document.clone()).await;
        assert_eq!(
            (response.status.as_u16(), response.error().as_str()),
            (400, error),
            "{document}"
        );
    }
    assert_eq!(env.store.counts().await.unwrap().clients, 0);
}

#[tokio::test]
async fn rejects_bodies_other_than_json_objects() {
    let env = TestEnv::new();
    let huge = format!("{{\"redirect_uris\":[\"{APP}\"],\"x\":\"{}\"}}", "x".repeat(64 * 1024));
    for (media, text) in [
        ("text/plain", "{}"),
        ("application/json", ""),
        ("application/json", "[]"),
        ("application/json", "{\"redirect_uris\":[],\"redirect_uris\":[]}"),
        ("application/json", &huge),
    ] {
        let request = Request::post("/oauth/register").header("content-type", media);
        let response = env.send(request.body(text.to_owned().into()).unwrap()).await;
        assert_eq!(
            (response.status.as_u16(), response.error().as_str()),
            (400, "invalid_client_metadata")
        );
    }
}

#[tokio::test]
async fn registration_flood_never_evicts_used_client() {
    let mut slow = settings();
    slow.rate_limits =
        RateLimits { registration: Rate { burst: 3, per_second: 1 }, ..slow.rate_limits };
    let env = TestEnv::with(slow, Limits::default());
    for status in [201, 201, 201, 429] {
        let response = env.register(json!({"redirect_uris": [APP]})).await;
        assert_eq!(response.status.as_u16(), status);
        assert_eq!(response.headers.contains_key("retry-after"), status == 429);
    }
    let env = TestEnv::with(settings(), Limits { new_clients: 3, ..Limits::default() });
    let used = env.client().await;
    let issued = env.tokens(&used).await;
    for _ in 0..100 {
        assert_eq!(env.register(json!({"redirect_uris": [APP]})).await.status, 201);
    }
    assert_eq!(env.store.counts().await.unwrap().clients, 4);
    env.clock.advance(std::time::Duration::from_hours(1));
    assert_eq!(env.refresh(&used, &issued.refresh).await.status, 200);
    assert_eq!(env.store.counts().await.unwrap().clients, 1);
}
