//! Tests for the registration endpoint.

use http::Request;
use serde_json::{Value, json};
use vmcp_auth_store::Limits;

use crate::testing::{APP, LOOPBACK, World, settings};
use crate::{Rate, Rates, Scopes};

#[tokio::test]
async fn a_client_is_told_what_it_got() {
    let mut settings = settings();
    settings.baseline_scopes = Scopes::parse("openid offline_access").unwrap();
    let world = World::with(settings, Limits::default());
    let came = world
        .register(json!({
            "redirect_uris": [APP, LOOPBACK], "client_name": "Editor", "scope": "email",
            "grant_types": ["refresh_token", "authorization_code"], "software_id": "editor", "application_type": "native",
            "logo_uri": "https://app.example/logo.png", "contacts": [],
        }))
        .await;
    assert_eq!(
        (came.status.as_u16(), &came.headers["cache-control"]),
        (201, &"no-store".parse().unwrap())
    );
    let registered = came.json();
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
async fn what_is_left_out_has_a_default() {
    let world = World::new();
    let registered = world.register(json!({"redirect_uris": [LOOPBACK]})).await.json();
    assert_eq!(registered["scope"], "openid profile email offline_access");
    assert_eq!(registered["grant_types"], json!(["authorization_code"]));
    assert_eq!(registered["application_type"], "native");
    let basic =
        json!({"redirect_uris": [APP], "token_endpoint_auth_method": "client_secret_basic"});
    let registered = world.register(basic).await.json();
    assert_eq!(registered["client_secret"].as_str().unwrap().len(), 43);
    assert_eq!(registered["client_secret_expires_at"], 0);
    assert_eq!(registered["application_type"], "web");
    for blank in ["", " "] {
        let blank = json!({"redirect_uris": [APP], "client_name": blank, "scope": ""});
        let registered = world.register(blank).await.json();
        assert!(registered.get("client_name").is_none(), "{registered}");
        assert_eq!(registered["scope"], "openid profile email offline_access");
    }
}

#[tokio::test]
async fn what_is_not_offered_is_left_out_of_what_a_client_gets() {
    let world = World::new();
    let device = "urn:ietf:params:oauth:grant-type:device_code";
    let document = json!({
        "redirect_uris": [APP], "grant_types": ["authorization_code", device, "implicit"],
        "response_types": ["code", "token"],
    });
    let registered = world.register(document).await.json();
    assert_eq!(registered["grant_types"], json!(["authorization_code"]));
    assert_eq!(registered["response_types"], json!(["code"]));
}

#[tokio::test]
async fn what_is_not_allowed_is_refused_by_its_name() {
    let world = World::new();
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
        let came = world.register(document.clone()).await;
        assert_eq!((came.status.as_u16(), came.error().as_str()), (400, error), "{document}");
    }
    assert_eq!(world.store.counts().await.unwrap().clients, 0);
}

#[tokio::test]
async fn bodies_that_are_no_json_object_are_refused() {
    let world = World::new();
    let huge = format!("{{\"redirect_uris\":[\"{APP}\"],\"x\":\"{}\"}}", "x".repeat(64 * 1024));
    for (media, text) in [
        ("text/plain", "{}"),
        ("application/json", ""),
        ("application/json", "[]"),
        ("application/json", "{\"redirect_uris\":[],\"redirect_uris\":[]}"),
        ("application/json", &huge),
    ] {
        let request = Request::post("/oauth/register").header("content-type", media);
        let came = world.send(request.body(text.to_owned().into()).unwrap()).await;
        assert_eq!((came.status.as_u16(), came.error().as_str()), (400, "invalid_client_metadata"));
    }
}

#[tokio::test]
async fn a_flood_of_registrations_is_held_up_and_never_pushes_a_used_client_out() {
    let mut slow = settings();
    slow.rates = Rates { registration: Rate { burst: 3, per_second: 1 }, ..slow.rates };
    let world = World::with(slow, Limits::default());
    for status in [201, 201, 201, 429] {
        let came = world.register(json!({"redirect_uris": [APP]})).await;
        assert_eq!(came.status.as_u16(), status);
        assert_eq!(came.headers.contains_key("retry-after"), status == 429);
    }
    let world = World::with(settings(), Limits { new_clients: 3, ..Limits::default() });
    let used = world.client().await;
    let got = world.tokens(&used).await;
    for _ in 0..100 {
        assert_eq!(world.register(json!({"redirect_uris": [APP]})).await.status, 201);
    }
    assert_eq!(world.store.counts().await.unwrap().clients, 4);
    world.clock.advance(std::time::Duration::from_secs(3600));
    assert_eq!(world.refresh(&used, &got.refresh).await.status, 200);
    assert_eq!(world.store.counts().await.unwrap().clients, 1);
}
