//! Logins, refreshes and revocations against a fake provider.

mod login;
mod refresh;
mod secrets;
mod user_info;

use serde_json::json;

use crate::testing::*;
use crate::*;

fn dynamic() -> Settings {
    let place = "https://id.example/.well-known/openid-configuration";
    let place = RegistrationSource::Discovery(endpoint(place));
    plain(oauth2(Client::Dynamic(DynamicClient::new(place).unwrap())))
}

fn fixed_oauth2() -> Settings {
    plain(oauth2(Client::Static(fixed())))
}

#[test]
fn oidc_requires_the_openid_scope() {
    let fake = FakeProvider::new();
    let settings = Settings { scopes: Scopes::new(["email"]).unwrap(), ..oidc() };
    let (one, two) = (fake.client(false), fake.client(true));
    let refused =
        Provider::new(settings, one, two, std::sync::Arc::new(MemoryRegistrations), clock())
            .unwrap_err();
    assert_eq!(refused, SettingsError::NoOpenid);
}

#[test]
fn construction_sends_no_request() {
    let fake = FakeProvider::new();
    let provider = fake.provider(oidc(), &clock());
    assert_eq!((provider.name(), provider.issuer()), ("idp", Some(ISSUER)));
    assert!(!provider.synthesizes() && provider.scopes().contains("openid"));
    let plain = fake.provider(fixed_oauth2(), &clock());
    assert_eq!((plain.issuer(), plain.synthesizes()), (None, true));
    assert!(fake.state().seen.is_empty());
}

#[tokio::test(start_paused = true)]
async fn check_reports_errors_of_a_login() {
    let fake = FakeProvider::new();
    let check = |settings: Settings| {
        let provider = fake.provider(settings, &clock());
        async move { provider.check().await }
    };
    assert_eq!(check(oidc()).await, Ok(()));
    assert_eq!(check(fixed_oauth2()).await, Ok(()));
    assert_eq!(check(dynamic()).await, Ok(()));
    assert!(fake.asked("/register").is_empty(), "a check registers nothing");
    for odd in [
        json!({"authorization_endpoint": null}),
        json!({"token_endpoint": null}),
        json!({"jwks_uri": null}),
        json!({"token_endpoint_auth_methods_supported": ["private_key_jwt"]}),
        json!({"issuer": "https://other.example"}),
    ] {
        fake.state().metadata = odd.clone();
        let error = check(oidc()).await.unwrap_err();
        assert_eq!(error.fault_party(), FaultParty::Operator, "{odd}");
    }
    fake.state().metadata = json!({"registration_endpoint": null});
    assert_eq!(check(dynamic()).await.unwrap_err().fault_party(), FaultParty::Operator);
    fake.state().metadata = json!({});
    fake.odd("/keys", 500, "text/html", "");
    assert_eq!(check(oidc()).await.unwrap_err().fault_party(), FaultParty::Provider);
}

#[tokio::test(start_paused = true)]
async fn oauth2_issuer_shares_an_endpoint_origin() {
    let fake = FakeProvider::new();
    let provider = |settings| fake.provider(settings, &clock());
    for (issuer, as_oidc, as_oauth2) in [
        (ISSUER, true, true),
        ("https://id.example/tenant", false, true),
        ("https://evil.example", false, false),
        ("https://id.example.evil.example", false, false),
        ("id.example", false, false),
    ] {
        assert_eq!(provider(oidc()).may_be(issuer), as_oidc, "{issuer}");
        assert_eq!(provider(fixed_oauth2()).may_be(issuer), as_oauth2, "{issuer}");
        assert!(provider(dynamic()).may_be(issuer), "its metadata says");
    }
}
