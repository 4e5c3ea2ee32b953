//! Secrets must not appear in any output.

use std::fmt::Write;

use serde_json::json;
use vmcp_test_support::LogCapture;

use super::dynamic;
use crate::testing::*;
use crate::*;

/// Settings whose secrets all contain `canary`.
fn settings_with_secrets(kind: fn(StaticClient, UserInfo, DynamicClient) -> Kind) -> Settings {
    let client = StaticClient::new(CLIENT, Some("canary-secret".into())).unwrap();
    let headers = Headers::new([("X-Key", "canary-header")]).unwrap();
    let info = UserInfo { headers, ..UserInfo::new(endpoint("https://id.example/me")) };
    let place = endpoint("https://id.example/.well-known/openid-configuration");
    let dynamic = DynamicClient::new(RegistrationSource::Discovery(place))
        .and_then(|it| it.initial_access_token("canary-initial".into()))
        .and_then(|it| it.software_statement("canary.statement.x"))
        .unwrap();
    settings(kind(client, info, dynamic))
}

#[tokio::test(start_paused = true)]
async fn secrets_appear_in_no_output() {
    let log = LogCapture::current_thread();
    let mut shown = String::new();
    let oidc = |client, info, _| {
        let issuer = Issuer::new(ISSUER).unwrap();
        Kind::Oidc(Box::new(Oidc { issuer, client, user_info: Some(info) }))
    };
    let registered = |_, info, dynamic| {
        Kind::Oauth2(Box::new(Oauth2 { user_info: Some(info), ..oauth2(Client::Dynamic(dynamic)) }))
    };
    for kind in [oidc as fn(_, _, _) -> _, registered] {
        let fake = FakeProvider::new();
        fake.state().registered = json!({"client_secret": "canary-dynamic"});
        fake.state().granted = json!({
            "access_token": "canary-access", "refresh_token": "canary-refresh", "scope": "openid",
        });
        let settings = settings_with_secrets(kind);
        write!(shown, "{settings:?}").unwrap();
        let provider = fake.provider(settings, &clock());
        let (uri, leg) = provider.begin("canary-state").await.unwrap();
        fake.state().nonce = query(&uri).get("nonce").cloned();
        let coming = AuthorizationResponse {
            outcome: Ok("canary-code".into()),
            iss: Some("canary-iss".into()),
        };
        write!(shown, "{leg:?} {coming:?} {provider:?} {:?}", Plaintext(&leg)).unwrap();
        write!(shown, "{:?}", provider.finish(&leg, coming).await.unwrap_err()).unwrap();
        let coming = AuthorizationResponse { outcome: Ok("canary-code".into()), iss: None };
        let login = provider.finish(&leg, coming).await.unwrap();
        write!(shown, "{login:?} {:?} {:?}", Plaintext(&login.tokens), login.tokens).unwrap();
        for (status, body) in [
            (400, r#"{"error":"canary_but_a_word_is_shown","error_description":"x"}"#),
            (400, r#"{"error":"Canary-x","error_description":"canary"}"#),
            (200, r#"{"access_token":"canary\n"}"#),
            (500, "canary"),
        ] {
            fake.odd("/token", status, "application/json", body);
            let error = provider.refresh(&login.tokens).await.unwrap_err();
            write!(shown, "{error:?} {error}").unwrap();
        }
        fake.odd("/revoke", 500, "text/html", "canary");
        let error = provider.revoke(&login.tokens).await.unwrap_err();
        write!(shown, "{error:?} {error} {}", error.hint()).unwrap();
    }
    let text = log.text();
    assert!(text.contains("registered at an identity provider"), "the log is heard: {text}");
    let all = (shown + &text).replace("canary_but_a_word_is_shown", "");
    assert!(!all.contains("canary") && !all.contains("alice@"), "{all}");
}

#[tokio::test(start_paused = true)]
async fn registration_debug_omits_the_secret() {
    let fake = FakeProvider::new();
    let provider = fake.provider(dynamic(), &clock());
    assert!(provider.begin("s").await.is_ok());
    let registration = Registration {
        client_id: "dyn-1".into(),
        secret: Some("canary".into()),
        method: AuthMethod::Basic,
        expires_at: None,
    };
    let shown = format!("{registration:?} {:?} {provider:?}", Plaintext(&registration));
    assert!(shown.contains("dyn-1") && !shown.contains("canary"), "{shown}");
}
