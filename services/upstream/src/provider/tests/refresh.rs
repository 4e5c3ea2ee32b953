//! Refreshes and revocations.

use std::time::Duration;

use secrecy::ExposeSecret;
use serde_json::json;

use super::{dynamic, fixed_oauth2};
use crate::testing::*;
use crate::*;

async fn logged_in(settings: Settings) -> (FakeProvider, Provider, Tokens) {
    let fake = FakeProvider::new();
    let provider = fake.provider(settings, &clock());
    let tokens = fake.login(&provider).await.unwrap().tokens;
    let stored = serde_json::to_vec(&Plaintext(&tokens)).unwrap();
    let tokens = serde_json::from_slice::<Plaintext<Tokens>>(&stored).unwrap().0;
    fake.state().seen.clear();
    (fake, provider, tokens)
}

async fn error(
    fake: &FakeProvider,
    provider: &Provider,
    tokens: &Tokens,
    status: u16,
    code: &str,
) -> RefreshError {
    fake.odd("/token", status, "application/json", &json!({ "error": code }).to_string());
    provider.refresh(tokens).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn refresh_keeps_omitted_members() {
    let (fake, provider, old) = logged_in(oidc()).await;
    fake.state().granted = json!({
        "access_token": "at-2", "refresh_token": null, "id_token": null, "expires_in": null,
    });
    let new = provider.refresh(&old).await.unwrap();
    assert_eq!(new.access.expose_secret(), "at-2");
    assert_eq!(new.refresh.as_ref().unwrap().expose_secret(), "rt-1");
    assert_eq!(new.id.as_ref().unwrap().expose_secret(), old.id.unwrap().expose_secret());
    assert_eq!((new.expires_at, &new.scopes), (None, &old.scopes));
    assert_eq!((&*new.subject, &*new.client_id), ("alice", CLIENT));
    let form = fake.asked("/token")[0].form();
    assert_eq!((&*form["grant_type"], &*form["refresh_token"]), ("refresh_token", "rt-1"));
    fake.state().granted = json!({"access_token": "at-3", "refresh_token": "rt-2"});
    let new = provider.refresh(&new).await.unwrap();
    assert_eq!(new.refresh.unwrap().expose_secret(), "rt-2");
}

#[tokio::test(start_paused = true)]
async fn distinguishes_ended_grants_from_temporary_errors() {
    let (fake, provider, tokens) = logged_in(oidc()).await;
    for code in ["invalid_grant", "bad_refresh_token", "interaction_required"] {
        assert_eq!(error(&fake, &provider, &tokens, 400, code).await, RefreshError::GrantEnded);
    }
    for (status, code) in
        [(401, "invalid_client"), (400, "slow_down"), (503, "invalid_grant"), (429, "x")]
    {
        let error = error(&fake, &provider, &tokens, status, code).await;
        assert!(matches!(error, RefreshError::Temporary(_)), "{status} {code}");
    }
    fake.state().silent.push("/token");
    let slow =
        ProviderError::Unavailable { endpoint: EndpointKind::Token, cause: EndpointError::Timeout };
    assert_eq!(provider.refresh(&tokens).await.unwrap_err(), RefreshError::Temporary(slow));
    let none = Tokens { refresh: None, ..tokens };
    assert_eq!(provider.refresh(&none).await.unwrap_err(), RefreshError::GrantEnded);
}

#[tokio::test(start_paused = true)]
async fn rejects_refreshed_tokens_of_other_user() {
    let (fake, provider, tokens) = logged_in(oidc()).await;
    for odd in [json!({"sub": "mallory"}), json!({"nonce": "other"})] {
        fake.state().claims = odd.clone();
        let error = provider.refresh(&tokens).await.unwrap_err();
        assert_eq!(error, RefreshError::SubjectChanged, "{odd}");
        let none = Tokens { id: None, ..tokens.clone() };
        let outcome = provider.refresh(&none).await;
        assert_eq!(outcome.is_err(), odd.get("sub").is_some(), "{odd}");
    }
    fake.state().claims = json!({"nonce": null});
    assert!(provider.refresh(&tokens).await.is_ok(), "a refreshed id token needs no nonce");
    fake.state().claims = json!({"aud": "other"});
    let error = provider.refresh(&tokens).await.unwrap_err();
    assert!(matches!(error, RefreshError::Temporary(ProviderError::Identity(_))));
}

#[tokio::test(start_paused = true)]
async fn keeps_rotated_token_without_keys() {
    let (fake, _, tokens) = logged_in(oidc()).await;
    fake.odd("/keys", 503, "text/html", "");
    fake.state().granted = json!({"access_token": "at-2", "refresh_token": "rt-2"});
    // A replica that has not fetched the keys.
    let provider = fake.provider(oidc(), &clock());
    let new = provider.refresh(&tokens).await.unwrap();
    assert_eq!(new.refresh.unwrap().expose_secret(), "rt-2");
    assert_eq!(new.id.unwrap().expose_secret(), tokens.id.as_ref().unwrap().expose_secret());
    fake.state().claims = json!({"sub": "mallory"});
    assert_eq!(provider.refresh(&tokens).await.unwrap_err(), RefreshError::SubjectChanged);
}

#[tokio::test(start_paused = true)]
async fn mapping_applies_to_refreshes() {
    let mapping = TokenMapping::new(Path::new("data.token").unwrap());
    let mapped = Oauth2 { token_mapping: Some(mapping), ..oauth2(Client::Static(fixed())) };
    let fake = FakeProvider::new();
    let provider = fake.provider(plain(mapped), &clock());
    let granted =
        |token: &str| json!({"data": {"token": token}, "refresh_token": "rt"}).to_string();
    fake.odd("/token", 200, "application/json", &granted("at-1"));
    let login = fake.login(&provider).await.unwrap();
    fake.odd("/token", 200, "application/json", &granted("at-2"));
    let new = provider.refresh(&login.tokens).await.unwrap();
    assert_eq!(new.access.expose_secret(), "at-2");
    assert_eq!(new.subject, login.subject, "a made-up subject stays the login's");
}

#[tokio::test(start_paused = true)]
async fn lost_registration_ends_its_grants() {
    let (fake, provider, tokens) = logged_in(dynamic()).await;
    let error = error(&fake, &provider, &tokens, 401, "invalid_client").await;
    assert_eq!(error, RefreshError::GrantEnded);
    // Another process with another registration cannot refresh these tokens.
    fake.state().odd.clear();
    let other = fake.provider(dynamic(), &clock());
    assert_eq!(other.refresh(&tokens).await.unwrap_err(), RefreshError::GrantEnded);
    fake.odd("/token", 401, "text/html", "a proxy's page");
    let (fake, provider, tokens) = logged_in(dynamic()).await;
    fake.odd("/token", 401, "text/html", "a proxy's page");
    let error = provider.refresh(&tokens).await.unwrap_err();
    assert!(matches!(error, RefreshError::Temporary(_)), "a 401 without a code is ambiguous");
}

#[tokio::test(start_paused = true)]
async fn revokes_refresh_token_first() {
    let (fake, provider, tokens) = logged_in(oidc()).await;
    assert_eq!(provider.revoke(&tokens).await, Ok(RevocationOutcome::Revoked));
    let asked: Vec<Form> = fake.asked("/revoke").iter().map(RecordedRequest::form).collect();
    assert_eq!(asked[0]["token"], "rt-1");
    assert_eq!(asked[0]["token_type_hint"], "refresh_token");
    assert_eq!(asked[1]["token"], "at-1");
    assert!(fake.asked("/revoke")[0].headers.contains_key("authorization"));
    let unsupported = r#"{"error":"unsupported_token_type"}"#;
    fake.odd("/revoke", 400, "application/json", unsupported);
    assert_eq!(provider.revoke(&tokens).await, Ok(RevocationOutcome::Revoked));
    fake.odd("/revoke", 503, "text/html", "");
    let down = ProviderError::Unavailable {
        endpoint: EndpointKind::RevocationOutcome,
        cause: EndpointError::Status(503),
    };
    assert_eq!(provider.revoke(&tokens).await, Err(down));
}

#[tokio::test(start_paused = true)]
async fn reports_missing_revocation_endpoint() {
    let (_, provider, tokens) = logged_in(fixed_oauth2()).await;
    assert_eq!(provider.revoke(&tokens).await, Ok(RevocationOutcome::Unsupported));
    let (fake, provider, tokens) = logged_in(dynamic()).await;
    assert_eq!(provider.revoke(&tokens).await, Ok(RevocationOutcome::Revoked));
    assert_eq!(fake.asked("/revoke").len(), 2);
    let fake = FakeProvider::new();
    fake.state().metadata = json!({"revocation_endpoint": null});
    let provider = fake.provider(oidc(), &clock());
    assert_eq!(provider.revoke(&tokens).await, Ok(RevocationOutcome::Unsupported));
}

/// Returns settings of a provider with the same name and other URLs.
fn moved(kind: &str) -> Settings {
    match kind {
        "oidc" => {
            let issuer = Issuer::new("https://other.example").unwrap();
            settings(Kind::Oidc(Box::new(Oidc { issuer, client: fixed(), user_info: None })))
        }
        "authorization" => plain(Oauth2 {
            authorization_endpoint: endpoint("https://id.example/authorize?tenant=2"),
            ..oauth2(Client::Static(fixed()))
        }),
        _ => plain(Oauth2 {
            token_endpoint: endpoint("https://id.example/other"),
            ..oauth2(Client::Static(fixed()))
        }),
    }
}

#[tokio::test(start_paused = true)]
async fn sends_no_token_to_renamed_provider() {
    for (kind, before) in
        [("oidc", oidc()), ("authorization", fixed_oauth2()), ("token", fixed_oauth2())]
    {
        let (fake, provider, tokens) = logged_in(before).await;
        let other = fake.provider(moved(kind), &clock());
        assert_ne!(provider.issuer_id(), other.issuer_id(), "{kind}");
        let seen = fake.state().seen.len();
        assert_eq!(other.refresh(&tokens).await.unwrap_err(), RefreshError::GrantEnded, "{kind}");
        assert_eq!(other.revoke(&tokens).await, Ok(RevocationOutcome::Unsupported), "{kind}");
        let (_, leg) = provider.begin("state").await.unwrap();
        let answer = AuthorizationResponse { outcome: Ok("code".into()), iss: None };
        let error = other.finish(&leg, answer).await.unwrap_err();
        assert_eq!(error, AuthorizationResponseError::OtherProvider.into(), "{kind}");
        assert_eq!(fake.state().seen.len(), seen, "{kind}");
    }
}

#[test]
fn stored_tokens_round_trip() {
    let tokens = Tokens {
        access: "at".into(),
        refresh: None,
        id: Some("id".into()),
        expires_at: Some(now() + Duration::from_secs(7)),
        scopes: Scopes::new(["a", "b"]).unwrap(),
        issuer: ISSUER.into(),
        subject: "alice".into(),
        client_id: CLIENT.into(),
    };
    let stored = serde_json::to_value(Plaintext(&tokens)).unwrap();
    let back = serde_json::from_value::<Plaintext<Tokens>>(stored.clone()).unwrap().0;
    assert_eq!(serde_json::to_value(Plaintext(&back)).unwrap(), stored);
    for odd in [
        json!({"scopes": ["a b"]}),
        json!({"expires_at": u64::MAX}),
        json!({"access": null}),
        json!({"expires_at": -1}),
    ] {
        let odd = over(stored.clone(), &odd);
        assert!(serde_json::from_value::<Plaintext<Tokens>>(odd.clone()).is_err(), "{odd}");
    }
}
