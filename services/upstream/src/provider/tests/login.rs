//! Logins, from the authorization request to the user.

use std::time::Duration;

use secrecy::ExposeSecret;
use serde_json::{Value, json};
use vmcp_jwt::{KeySourceError, TokenError, VerifyError};

use super::{dynamic, fixed_oauth2};
use crate::testing::*;
use crate::*;

async fn error(settings: Settings, knobs: impl FnOnce(&FakeProvider)) -> ProviderError {
    let fake = FakeProvider::new();
    knobs(&fake);
    fake.login(&fake.provider(settings, &clock())).await.unwrap_err()
}

fn token(cause: EndpointError) -> ProviderError {
    ProviderError::Unavailable { endpoint: EndpointKind::Token, cause }
}

#[tokio::test(start_paused = true)]
async fn authorization_request_has_all_parameters() {
    let fake = FakeProvider::new();
    fake.state().metadata = json!({"authorization_endpoint": "https://id.example/authorize?p=1"});
    let params = Params::new([("prompt".to_owned(), "consent login".to_owned())]).unwrap();
    let provider = fake.provider(Settings { params, ..oidc() }, &clock());
    let (uri, leg) = provider.begin("st&te").await.unwrap();
    assert!(uri.to_string().starts_with("https://id.example/authorize?p=1&response_type=code&"));
    let sent = query(&uri);
    let (nonce, sent_challenge) = (sent["nonce"].clone(), sent["code_challenge"].clone());
    let wanted: Form = [
        ("p", "1"),
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", "https://mcp.example/oauth/callback"),
        ("state", "st&te"),
        ("scope", "openid offline_access"),
        ("code_challenge", &sent_challenge),
        ("code_challenge_method", "S256"),
        ("nonce", &nonce),
        ("prompt", "consent login"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    assert_eq!(sent, wanted);
    assert_eq!((nonce.len(), sent_challenge.len()), (43, 43));
    assert_eq!((leg.client_id(), leg.begun()), (CLIENT, now()));
    let (again, _) = provider.begin("st&te").await.unwrap();
    assert_ne!(query(&again)["nonce"], nonce);
    assert_ne!(query(&again)["code_challenge"], sent_challenge);
    let endpoint = provider.authorization_endpoint().await.unwrap();
    assert_eq!(endpoint.origin(), "https://id.example");
}

#[tokio::test(start_paused = true)]
async fn oauth2_sends_pkce_without_nonce() {
    let fake = FakeProvider::new();
    let mut settings = fixed_oauth2();
    settings.scopes = Scopes::default();
    let (uri, _) = fake.provider(settings, &clock()).begin("s").await.unwrap();
    assert!(uri.to_string().starts_with("https://id.example/authorize?tenant=1&"));
    let sent = query(&uri);
    assert!(!sent.contains_key("nonce") && !sent.contains_key("scope"));
    assert!(sent.contains_key("code_challenge"));
}

#[tokio::test(start_paused = true)]
async fn requests_reauthentication_and_reports_its_time() {
    let fake = FakeProvider::new();
    let mut settings = oidc();
    let params = [("prompt", "consent"), ("max_age", "3600"), ("audience", "x")];
    let params = params.map(|(name, value)| (name.to_owned(), value.to_owned()));
    settings.params = Params::new(params).unwrap();
    let provider = fake.provider(settings, &clock());
    let (uri, _) = provider.begin("s").await.unwrap();
    let sent = query(&uri);
    assert_eq!((&*sent["prompt"], &*sent["max_age"], &*sent["audience"]), ("consent", "3600", "x"));
    let reauth = ReauthParams { login: true, max_age: Some(60), ..ReauthParams::default() };
    let (uri, leg) = provider.begin_with("s", reauth).await.unwrap();
    let sent = query(&uri);
    assert_eq!((&*sent["prompt"], &*sent["max_age"]), ("consent login", "60"));
    assert_eq!(uri.query().unwrap().matches("prompt=").count(), 1);
    fake.state().nonce = sent.get("nonce").cloned();
    fake.state().claims = json!({"auth_time": NOW - 7});
    let login = provider.finish(&leg, answer(None)).await.unwrap();
    assert_eq!(login.authenticated, Some(now() - Duration::from_secs(7)));
}

#[tokio::test(start_paused = true)]
async fn login_returns_user_and_tokens() {
    let fake = FakeProvider::new();
    fake.state().claims = json!({"name": "Alice", "email": "alice@example.com"});
    let provider = fake.provider(oidc(), &clock());
    let (uri, leg) = provider.begin("st4te").await.unwrap();
    fake.state().nonce = query(&uri).get("nonce").cloned();
    let sealed = serde_json::to_string(&Plaintext(&leg)).unwrap();
    let leg = serde_json::from_str::<Plaintext<AuthorizationState>>(&sealed).unwrap().0;
    let login = provider.finish(&leg, answer(None)).await.unwrap();
    assert_eq!((&*login.subject, login.is_synthetic), ("alice", false));
    assert_eq!(login.name.as_deref(), Some("Alice"));
    assert_eq!(login.email.as_deref(), Some("alice@example.com"));
    let tokens = login.tokens;
    assert_eq!(tokens.access.expose_secret(), "at-1");
    assert_eq!(tokens.refresh.unwrap().expose_secret(), "rt-1");
    assert_eq!(tokens.id.unwrap().expose_secret(), fake.state().id_token());
    assert_eq!(tokens.expires_at, Some(now() + Duration::from_mins(5)));
    assert!(tokens.scopes.contains("offline_access"), "what was asked for, where nothing is said");
    assert_eq!((&*tokens.subject, &*tokens.client_id), ("alice", CLIENT));
    let asked = &fake.asked("/token")[0];
    let form = asked.form();
    assert_eq!(challenge(&form["code_verifier"]), query(&uri)["code_challenge"]);
    assert_eq!((&*form["grant_type"], &*form["code"]), ("authorization_code", "c0de"));
    assert_eq!(form["redirect_uri"], "https://mcp.example/oauth/callback");
    assert_eq!(form.len(), 4, "a client that authenticates in the header is not named in the body");
    assert!(asked.headers["authorization"].to_str().unwrap().starts_with("Basic "));
    assert!(fake.asked("/me").is_empty(), "the id token said it all");
}

#[tokio::test(start_paused = true)]
async fn public_client_sends_identifier_and_verifier() {
    let fake = FakeProvider::new();
    let issuer = Issuer::new(ISSUER).unwrap();
    let client = StaticClient::new(CLIENT, None).unwrap();
    let oidc = Oidc { issuer, client, user_info: None };
    let provider = fake.provider(settings(Kind::Oidc(Box::new(oidc))), &clock());
    assert!(fake.login(&provider).await.is_ok());
    let asked = &fake.asked("/token")[0];
    assert_eq!(asked.form()["client_id"], CLIENT);
    assert!(
        !asked.headers.contains_key("authorization") && !asked.form().contains_key("client_secret")
    );
}

#[tokio::test(start_paused = true)]
async fn rejects_id_token_of_other_login() {
    for nonce in [json!("other"), json!(null), json!(""), json!(["n"])] {
        let error = error(oidc(), |fake| fake.state().claims = json!({"nonce": nonce})).await;
        assert_eq!(error, IdentityError::WrongNonce.into());
        assert_eq!((error.fault_party(), error.error()), (FaultParty::Browser, "access_denied"));
    }
}

#[tokio::test(start_paused = true)]
async fn rejects_id_token_for_other_client() {
    for (claims, wanted) in [
        (json!({"aud": "other"}), TokenError::Audience),
        (json!({"iss": "https://other.example"}), TokenError::Issuer),
        (json!({"exp": NOW - 60}), TokenError::Expired),
    ] {
        let error = error(oidc(), |fake| fake.state().claims = claims).await;
        assert_eq!(error, IdentityError::InvalidIdToken(VerifyError::Token(wanted)).into());
    }
    let error = error(oidc(), |fake| fake.state().claims = json!({"azp": "other"})).await;
    assert_eq!(error, IdentityError::WrongAuthorizedParty.into());
}

#[tokio::test(start_paused = true)]
async fn oidc_requires_id_token_and_keys() {
    let without = |fake: &FakeProvider| fake.state().granted = json!({"id_token": null});
    assert_eq!(error(oidc(), without).await, IdentityError::MissingIdToken.into());
    let down = error(oidc(), |fake| fake.odd("/keys", 503, "text/html", "")).await;
    let keys = VerifyError::Keys(KeySourceError::Status(503));
    assert_eq!(down, IdentityError::InvalidIdToken(keys).into());
    assert_eq!(
        (down.fault_party(), down.error()),
        (FaultParty::Provider, "temporarily_unavailable")
    );
}

#[tokio::test(start_paused = true)]
async fn distinguishes_malformed_response_from_rejection() {
    for (status, kind, body, wanted) in [
        (200, "text/html", "<h1>".to_owned(), EndpointError::NotJson),
        (200, "application/json", "{".to_owned(), EndpointError::Malformed),
        (200, "application/json", "{}".to_owned(), EndpointError::NoToken),
        (
            200,
            "application/json",
            r#"{"access_token":"a","token_type":"mac"}"#.to_owned(),
            EndpointError::WrongTokenType,
        ),
        (500, "text/html", "canary".to_owned(), EndpointError::Status(500)),
        (429, "application/json", "{}".to_owned(), EndpointError::Status(429)),
        (307, "text/html", String::new(), EndpointError::Redirected),
        (200, "application/json", " ".repeat(1024 * 1024 + 1), EndpointError::TooLarge),
    ] {
        let error = error(oidc(), |fake| fake.odd("/token", status, kind, &body)).await;
        assert_eq!(error, token(wanted));
        assert!(!error.to_string().contains("canary"));
    }
    let slow = error(oidc(), |fake| fake.state().silent.push("/token")).await;
    assert_eq!(slow, token(EndpointError::Timeout));
    let no = |fake: &FakeProvider| {
        fake.odd("/token", 400, "application/json", r#"{"error":"invalid_grant"}"#);
    };
    let refused = error(oidc(), no).await;
    assert_eq!((refused.fault_party(), refused.error()), (FaultParty::Browser, "access_denied"));
}

#[tokio::test(start_paused = true)]
async fn rejects_response_of_other_issuer() {
    let fake = FakeProvider::new();
    for (says_so, iss, wanted) in [
        (true, Some(ISSUER), None),
        (true, Some("https://evil.example"), Some(AuthorizationResponseError::WrongIssuer)),
        (true, None, Some(AuthorizationResponseError::MissingIssuer)),
        (false, Some(ISSUER), None),
        (false, Some("https://id.example/"), Some(AuthorizationResponseError::WrongIssuer)),
        (false, None, None),
    ] {
        fake.state().metadata = json!({"authorization_response_iss_parameter_supported": says_so});
        for settings in [oidc(), dynamic()] {
            let provider = fake.provider(settings, &clock());
            let (uri, leg) = provider.begin("s").await.unwrap();
            fake.state().nonce = query(&uri).get("nonce").cloned();
            assert_eq!(leg.expects(iss).err(), wanted, "{says_so} {iss:?}");
            fake.state().seen.clear();
            let outcome = provider.finish(&leg, answer(iss)).await;
            assert_eq!(outcome.err(), wanted.map(ProviderError::Response), "{says_so} {iss:?}");
            // A code of another issuer must not reach this one.
            assert_eq!(fake.asked("/token").is_empty(), wanted.is_some());
            // An error of another issuer is not this one's either.
            let denied = AuthorizationResponse {
                outcome: Err(AuthorizationDenied::AccessDenied),
                ..answer(iss)
            };
            let error = provider.finish(&leg, denied).await.unwrap_err();
            let own = ProviderError::Denied(AuthorizationDenied::AccessDenied);
            assert_eq!(error, wanted.map_or(own, ProviderError::Response), "{says_so} {iss:?}");
        }
    }
    let unknown = fake.provider(fixed_oauth2(), &clock());
    let (_, leg) = unknown.begin("s").await.unwrap();
    assert_eq!(leg.expects(Some("https://any.example")), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn expired_or_empty_code_sends_no_request() {
    let (fake, clock) = (FakeProvider::new(), clock());
    let provider = fake.provider(oidc(), &clock);
    let (_, leg) = provider.begin("s").await.unwrap();
    for code in ["", "a\r\nb", "\u{fc}", &"a".repeat(8 * 1024 + 1)] {
        let answer = AuthorizationResponse { outcome: Ok(code.into()), iss: None };
        let error = provider.finish(&leg, answer).await.unwrap_err();
        assert_eq!(error, AuthorizationResponseError::InvalidCode.into());
    }
    clock.advance(Duration::from_mins(15));
    assert_eq!(
        provider.finish(&leg, answer(None)).await.unwrap_err(),
        AuthorizationResponseError::Expired.into()
    );
    assert!(fake.asked("/token").is_empty());
}

#[tokio::test(start_paused = true)]
async fn rejects_login_of_other_client() {
    let fake = FakeProvider::new();
    let (_, leg) = fake.provider(oidc(), &clock()).begin("s").await.unwrap();
    let issuer = Issuer::new(ISSUER).unwrap();
    let client = StaticClient::new("renamed", None).unwrap();
    let renamed = settings(Kind::Oidc(Box::new(Oidc { issuer, client, user_info: None })));
    let error = fake.provider(renamed, &clock()).finish(&leg, answer(None)).await.unwrap_err();
    assert_eq!(error, AuthorizationResponseError::OtherClient.into());
    assert!(fake.asked("/token").is_empty());
}

#[tokio::test(start_paused = true)]
async fn remembers_working_auth_method() {
    let fake = FakeProvider::new();
    for (status, code) in
        [(401, "invalid_client"), (400, "invalid_client"), (200, "incorrect_client_credentials")]
    {
        let provider = fake.provider(fixed_oauth2(), &clock());
        fake.odd("/token", status, "application/json", &json!({ "error": code }).to_string());
        fake.state().seen.clear();
        let error = fake.login(&provider).await.unwrap_err();
        assert_eq!(
            error,
            ProviderError::Rejected { endpoint: EndpointKind::Token, code: code.into() }
        );
        assert_eq!(error.fault_party(), FaultParty::Operator);
        let asked = fake.asked("/token");
        assert!(asked[0].headers.contains_key("authorization"));
        assert!(asked[1].form().contains_key("client_secret"));
        assert_eq!(asked.len(), 2);
    }
    // A rejected code must not be sent twice.
    fake.odd("/token", 400, "application/json", r#"{"error":"invalid_grant"}"#);
    fake.state().seen.clear();
    let provider = fake.provider(fixed_oauth2(), &clock());
    assert!(fake.login(&provider).await.is_err());
    assert_eq!(fake.asked("/token").len(), 1);
    fake.state().odd.clear();
    fake.state().in_body_only = true;
    for requests in [2, 1] {
        fake.state().seen.clear();
        assert!(fake.login(&provider).await.is_ok());
        assert_eq!(fake.asked("/token").len(), requests);
    }
}

#[tokio::test(start_paused = true)]
async fn parses_nonstandard_response_as_configured() {
    let fake = FakeProvider::new();
    let body = json!({"ok": true, "authed_user": {"access_token": "at-9", "scope": "a b"}});
    fake.odd("/token", 200, "application/json", &body.to_string());
    let path = Path::new("authed_user.access_token").unwrap();
    let mapping =
        TokenMapping { scope: Path::new("authed_user.scope").unwrap(), ..TokenMapping::new(path) };
    let mapped = Oauth2 { token_mapping: Some(mapping), ..oauth2(Client::Static(fixed())) };
    let login = fake.login(&fake.provider(plain(mapped), &clock())).await.unwrap();
    assert_eq!(login.tokens.access.expose_secret(), "at-9");
    assert!(login.tokens.scopes.contains("b"));
    assert!(fake.asked("/token")[0].form().contains_key("client_secret"), "in the body");
}

#[tokio::test(start_paused = true)]
async fn subject_is_synthetic_without_userinfo() {
    let fake = FakeProvider::new();
    let login = fake.login(&fake.provider(fixed_oauth2(), &clock())).await.unwrap();
    assert_eq!(&*login.subject, "tk-47c3d868841d71811d91273d4de1b289");
    assert!(login.is_synthetic && login.name.is_none() && login.email.is_none());
    assert!(login.tokens.id.is_none(), "an unverified ID token");
}

#[tokio::test(start_paused = true)]
async fn forgotten_dynamic_client_registers_again() {
    let fake = FakeProvider::new();
    let provider = fake.provider(dynamic(), &clock());
    let login = fake.login(&provider).await.unwrap();
    assert_eq!(&*login.tokens.client_id, "dyn-1");
    fake.odd("/token", 401, "application/json", r#"{"error":"invalid_client"}"#);
    assert!(fake.login(&provider).await.is_err());
    fake.state().odd.clear();
    fake.state().registered = json!({"client_id": "dyn-2"});
    let login = fake.login(&provider).await.unwrap();
    assert_eq!(&*login.tokens.client_id, "dyn-2");
    assert_eq!(fake.asked("/register").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn login_succeeds_after_an_outage() {
    let (fake, clock) = (FakeProvider::new(), clock());
    let provider = fake.provider(oidc(), &clock);
    fake.state().silent.push("/.well-known/openid-configuration");
    let error = provider.begin("s").await.unwrap_err();
    assert_eq!(
        error,
        ProviderError::Unavailable {
            endpoint: EndpointKind::Discovery,
            cause: EndpointError::Timeout
        }
    );
    assert_eq!(error.error(), "temporarily_unavailable");
    fake.state().silent.clear();
    clock.advance(Duration::from_secs(5));
    assert!(fake.login(&provider).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn metadata_endpoints_use_the_guarded_client() {
    let fake = FakeProvider::new();
    fake.state().metadata = json!({"token_endpoint": "https://elsewhere.example/token"});
    assert!(fake.login(&fake.provider(oidc(), &clock())).await.is_ok());
    assert!(fake.asked("/token")[0].supplied);
    assert!(!fake.asked("/keys")[0].supplied);
}

#[test]
fn maps_authorization_errors() {
    for (names, error) in [
        (
            &["access_denied", "login_required", "user_cancelled_authorize", "", "<b>"][..],
            "access_denied",
        ),
        (&["server_error", "temporarily_unavailable"], "temporarily_unavailable"),
        (&["invalid_scope", "unauthorized_client", "invalid_request"], "server_error"),
    ] {
        for name in names {
            assert_eq!(
                ProviderError::Denied(AuthorizationDenied::from_code(name)).error(),
                error,
                "{name}"
            );
        }
    }
}

#[test]
fn hints_contain_no_provider_text() {
    let refused = ProviderError::Rejected { endpoint: EndpointKind::Token, code: "canary".into() };
    for error in [
        refused,
        ProviderError::ConfigMismatch("canary"),
        ProviderError::RegistrationStore,
        ProviderError::RandomUnavailable,
        AuthorizationResponseError::WrongIssuer.into(),
        ProviderError::Denied(AuthorizationDenied::AccessDenied),
        ProviderError::Denied(AuthorizationDenied::InvalidRequest),
        IdentityError::WrongNonce.into(),
        token(EndpointError::Status(599)),
    ] {
        let hint = error.hint();
        assert!(hint.ends_with('.') && !hint.contains("canary") && !hint.contains("599"), "{hint}");
    }
}

#[tokio::test(start_paused = true)]
async fn granted_scopes_override_requested_ones() {
    let fake = FakeProvider::new();
    fake.state().granted = json!({"scope": "openid"});
    let login = fake.login(&fake.provider(oidc(), &clock())).await.unwrap();
    assert_eq!(login.tokens.scopes, Scopes::new(["openid"]).unwrap());
    let stored: Value = serde_json::to_value(Plaintext(&login.tokens)).unwrap();
    assert_eq!(stored["scopes"], json!(["openid"]));
}
