//! From the browser's leaving to who logged in.

use std::time::Duration;

use secrecy::ExposeSecret;
use serde_json::{Value, json};
use vmcp_jwt::{KeysError, TokenFault, VerifyError};

use super::{dynamic, fixed_oauth2};
use crate::testing::*;
use crate::*;

async fn fault(settings: Settings, knobs: impl FnOnce(&Fake)) -> Fault {
    let fake = Fake::new();
    knobs(&fake);
    fake.login(&fake.provider(settings, &clock())).await.unwrap_err()
}

fn token(outage: Outage) -> Fault {
    Fault::Unavailable { place: Place::Token, outage }
}

#[tokio::test(start_paused = true)]
async fn a_browser_is_sent_with_all_that_the_standards_ask_for_and_the_operator() {
    let fake = Fake::new();
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
async fn plain_oauth_sends_no_nonce_but_pkce() {
    let fake = Fake::new();
    let mut settings = fixed_oauth2();
    settings.scopes = Scopes::default();
    let (uri, _) = fake.provider(settings, &clock()).begin("s").await.unwrap();
    assert!(uri.to_string().starts_with("https://id.example/authorize?tenant=1&"));
    let sent = query(&uri);
    assert!(!sent.contains_key("nonce") && !sent.contains_key("scope"));
    assert!(sent.contains_key("code_challenge"));
}

#[tokio::test(start_paused = true)]
async fn who_sends_a_user_can_have_them_log_in_anew_and_hears_when_they_did() {
    let fake = Fake::new();
    let mut settings = oidc();
    let params = [("prompt", "consent"), ("max_age", "3600"), ("audience", "x")];
    let params = params.map(|(name, value)| (name.to_owned(), value.to_owned()));
    settings.params = Params::new(params).unwrap();
    let provider = fake.provider(settings, &clock());
    let (uri, _) = provider.begin("s").await.unwrap();
    let sent = query(&uri);
    assert_eq!((&*sent["prompt"], &*sent["max_age"], &*sent["audience"]), ("consent", "3600", "x"));
    let anew = Freshness { login: true, max_age: Some(60), ..Freshness::default() };
    let (uri, leg) = provider.begin_anew("s", anew).await.unwrap();
    let sent = query(&uri);
    assert_eq!((&*sent["prompt"], &*sent["max_age"]), ("consent login", "60"));
    assert_eq!(uri.query().unwrap().matches("prompt=").count(), 1);
    fake.state().nonce = sent.get("nonce").cloned();
    fake.state().claims = json!({"auth_time": NOW - 7});
    let login = provider.finish(&leg, answer(None)).await.unwrap();
    assert_eq!(login.authenticated, Some(now() - Duration::from_secs(7)));
}

#[tokio::test(start_paused = true)]
async fn a_login_says_who_it_is_and_brings_the_tokens() {
    let fake = Fake::new();
    fake.state().claims = json!({"name": "Alice", "email": "alice@example.com"});
    let provider = fake.provider(oidc(), &clock());
    let (uri, leg) = provider.begin("st4te").await.unwrap();
    fake.state().nonce = query(&uri).get("nonce").cloned();
    let sealed = serde_json::to_string(&Exposed(&leg)).unwrap();
    let leg = serde_json::from_str::<Exposed<Leg>>(&sealed).unwrap().0;
    let login = provider.finish(&leg, answer(None)).await.unwrap();
    assert_eq!((&*login.subject, login.synthesized), ("alice", false));
    assert_eq!(login.name.as_deref(), Some("Alice"));
    assert_eq!(login.email.as_deref(), Some("alice@example.com"));
    let tokens = login.tokens;
    assert_eq!(tokens.access.expose_secret(), "at-1");
    assert_eq!(tokens.refresh.unwrap().expose_secret(), "rt-1");
    assert_eq!(tokens.id.unwrap().expose_secret(), fake.state().id_token());
    assert_eq!(tokens.expires_at, Some(now() + Duration::from_secs(300)));
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
async fn a_public_client_names_itself_and_proves_nothing_but_the_verifier() {
    let fake = Fake::new();
    let issuer = Issuer::new(ISSUER).unwrap();
    let client = Fixed::new(CLIENT, None).unwrap();
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
async fn an_id_token_of_another_login_is_an_injection() {
    for nonce in [json!("other"), json!(null), json!(""), json!(["n"])] {
        let fault = fault(oidc(), |fake| fake.state().claims = json!({"nonce": nonce})).await;
        assert_eq!(fault, IdentityFault::Nonce.into());
        assert_eq!((fault.blame(), fault.error()), (Blame::Browser, "access_denied"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_token_that_is_not_for_this_client_is_refused() {
    for (claims, wanted) in [
        (json!({"aud": "other"}), TokenFault::Audience),
        (json!({"iss": "https://other.example"}), TokenFault::Issuer),
        (json!({"exp": NOW - 60}), TokenFault::Expired),
    ] {
        let fault = fault(oidc(), |fake| fake.state().claims = claims).await;
        assert_eq!(fault, IdentityFault::Token(VerifyError::Token(wanted)).into());
    }
    let fault = fault(oidc(), |fake| fake.state().claims = json!({"azp": "other"})).await;
    assert_eq!(fault, IdentityFault::AuthorizedParty.into());
}

#[tokio::test(start_paused = true)]
async fn an_openid_provider_gives_an_id_token_and_publishes_its_keys() {
    let without = |fake: &Fake| fake.state().granted = json!({"id_token": null});
    assert_eq!(fault(oidc(), without).await, IdentityFault::NoIdToken.into());
    let down = fault(oidc(), |fake| fake.odd("/keys", 503, "text/html", "")).await;
    let keys = VerifyError::Keys(KeysError::Status(503));
    assert_eq!(down, IdentityFault::Token(keys).into());
    assert_eq!((down.blame(), down.error()), (Blame::Provider, "temporarily_unavailable"));
}

#[tokio::test(start_paused = true)]
async fn a_token_endpoint_that_answers_nonsense_is_told_from_one_that_refuses() {
    for (status, kind, body, wanted) in [
        (200, "text/html", "<h1>".to_owned(), Outage::NotJson),
        (200, "application/json", "{".to_owned(), Outage::Malformed),
        (200, "application/json", "{}".to_owned(), Outage::NoToken),
        (
            200,
            "application/json",
            r#"{"access_token":"a","token_type":"mac"}"#.to_owned(),
            Outage::WrongType,
        ),
        (500, "text/html", "canary".to_owned(), Outage::Status(500)),
        (429, "application/json", "{}".to_owned(), Outage::Status(429)),
        (307, "text/html", String::new(), Outage::Redirects),
        (200, "application/json", " ".repeat(1024 * 1024 + 1), Outage::TooLarge),
    ] {
        let fault = fault(oidc(), |fake| fake.odd("/token", status, kind, &body)).await;
        assert_eq!(fault, token(wanted));
        assert!(!fault.to_string().contains("canary"));
    }
    let slow = fault(oidc(), |fake| fake.state().silent.push("/token")).await;
    assert_eq!(slow, token(Outage::Slow));
    let no = |fake: &Fake| {
        fake.odd("/token", 400, "application/json", r#"{"error":"invalid_grant"}"#);
    };
    let refused = fault(oidc(), no).await;
    assert_eq!((refused.blame(), refused.error()), (Blame::Browser, "access_denied"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_taken_from_whom_it_is_expected_only() {
    let fake = Fake::new();
    for (says_so, iss, wanted) in [
        (true, Some(ISSUER), None),
        (true, Some("https://evil.example"), Some(AnswerFault::WrongIssuer)),
        (true, None, Some(AnswerFault::NoIssuer)),
        (false, Some(ISSUER), None),
        (false, Some("https://id.example/"), Some(AnswerFault::WrongIssuer)),
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
            assert_eq!(outcome.err(), wanted.map(Fault::Answer), "{says_so} {iss:?}");
            // A code of another issuer must not get to this one.
            assert_eq!(fake.asked("/token").is_empty(), wanted.is_some());
            // Nor is an error of another issuer this one's.
            let denied = Answer { outcome: Err(Declined::Denied), ..answer(iss) };
            let fault = provider.finish(&leg, denied).await.unwrap_err();
            let own = Fault::Declined(Declined::Denied);
            assert_eq!(fault, wanted.map_or(own, Fault::Answer), "{says_so} {iss:?}");
        }
    }
    let unknown = fake.provider(fixed_oauth2(), &clock());
    let (_, leg) = unknown.begin("s").await.unwrap();
    assert_eq!(leg.expects(Some("https://whoever.example")), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_too_late_or_without_a_code_asks_nobody() {
    let (fake, clock) = (Fake::new(), clock());
    let provider = fake.provider(oidc(), &clock);
    let (_, leg) = provider.begin("s").await.unwrap();
    for code in ["", "a\r\nb", "\u{fc}", &"a".repeat(8 * 1024 + 1)] {
        let answer = Answer { outcome: Ok(code.into()), iss: None };
        let fault = provider.finish(&leg, answer).await.unwrap_err();
        assert_eq!(fault, AnswerFault::NoCode.into());
    }
    clock.advance(Duration::from_secs(15 * 60));
    assert_eq!(provider.finish(&leg, answer(None)).await.unwrap_err(), AnswerFault::TooLate.into());
    assert!(fake.asked("/token").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_leg_of_another_client_is_not_redeemed() {
    let fake = Fake::new();
    let (_, leg) = fake.provider(oidc(), &clock()).begin("s").await.unwrap();
    let issuer = Issuer::new(ISSUER).unwrap();
    let client = Fixed::new("renamed", None).unwrap();
    let renamed = settings(Kind::Oidc(Box::new(Oidc { issuer, client, user_info: None })));
    let fault = fake.provider(renamed, &clock()).finish(&leg, answer(None)).await.unwrap_err();
    assert_eq!(fault, AnswerFault::OtherClient.into());
    assert!(fake.asked("/token").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_says_nothing_of_itself_is_asked_in_both_ways_and_remembered() {
    let fake = Fake::new();
    for (status, code) in
        [(401, "invalid_client"), (400, "invalid_client"), (200, "incorrect_client_credentials")]
    {
        let provider = fake.provider(fixed_oauth2(), &clock());
        fake.odd("/token", status, "application/json", &json!({ "error": code }).to_string());
        fake.state().seen.clear();
        let fault = fake.login(&provider).await.unwrap_err();
        assert_eq!(fault, Fault::Refused { place: Place::Token, code: code.into() });
        assert_eq!(fault.blame(), Blame::Operator);
        let asked = fake.asked("/token");
        assert!(asked[0].headers.contains_key("authorization"));
        assert!(asked[1].form().contains_key("client_secret"));
        assert_eq!(asked.len(), 2);
    }
    // A refusal of the code is no reason to send it twice.
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
async fn an_odd_token_answer_is_read_as_configured() {
    let fake = Fake::new();
    let body = json!({"ok": true, "authed_user": {"access_token": "at-9", "scope": "a b"}});
    fake.odd("/token", 200, "application/json", &body.to_string());
    let path = Path::new("authed_user.access_token").unwrap();
    let mapping =
        TokenMapping { scope: Path::new("authed_user.scope").unwrap(), ..TokenMapping::new(path) };
    let mapped = Oauth2 { token_mapping: Some(mapping), ..oauth2(Client::Fixed(fixed())) };
    let login = fake.login(&fake.provider(plain(mapped), &clock())).await.unwrap();
    assert_eq!(login.tokens.access.expose_secret(), "at-9");
    assert!(login.tokens.scopes.contains("b"));
    assert!(fake.asked("/token")[0].form().contains_key("client_secret"), "in the body");
}

#[tokio::test(start_paused = true)]
async fn without_userinfo_the_subject_is_made_up() {
    let fake = Fake::new();
    let login = fake.login(&fake.provider(fixed_oauth2(), &clock())).await.unwrap();
    assert_eq!(&*login.subject, "tk-47c3d868841d71811d91273d4de1b289");
    assert!(login.synthesized && login.name.is_none() && login.email.is_none());
    assert!(login.tokens.id.is_none(), "an id token that nobody verified");
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_client_registers_logs_in_and_registers_anew_when_it_is_forgotten() {
    let fake = Fake::new();
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
async fn a_provider_that_is_down_costs_a_login_and_comes_back() {
    let (fake, clock) = (Fake::new(), clock());
    let provider = fake.provider(oidc(), &clock);
    fake.state().silent.push("/.well-known/openid-configuration");
    let fault = provider.begin("s").await.unwrap_err();
    assert_eq!(fault, Fault::Unavailable { place: Place::Discovery, outage: Outage::Slow });
    assert_eq!(fault.error(), "temporarily_unavailable");
    fake.state().silent.clear();
    clock.advance(Duration::from_secs(5));
    assert!(fake.login(&provider).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_only_metadata_names_is_asked_over_the_guarded_client() {
    let fake = Fake::new();
    fake.state().metadata = json!({"token_endpoint": "https://elsewhere.example/token"});
    assert!(fake.login(&fake.provider(oidc(), &clock())).await.is_ok());
    assert!(fake.asked("/token")[0].supplied);
    assert!(!fake.asked("/keys")[0].supplied);
}

#[test]
fn an_error_s_name_says_what_the_client_is_told() {
    for (names, error) in [
        (
            &["access_denied", "login_required", "user_cancelled_authorize", "", "<b>"][..],
            "access_denied",
        ),
        (&["server_error", "temporarily_unavailable"], "temporarily_unavailable"),
        (&["invalid_scope", "unauthorized_client", "invalid_request"], "server_error"),
    ] {
        for name in names {
            assert_eq!(Fault::Declined(Declined::of(name)).error(), error, "{name}");
        }
    }
}

#[test]
fn every_fault_has_words_for_a_browser_without_any_of_the_provider_s() {
    let refused = Fault::Refused { place: Place::Token, code: "canary".into() };
    for fault in [
        refused,
        Fault::Misfit("canary"),
        Fault::Registrations,
        Fault::Random,
        AnswerFault::WrongIssuer.into(),
        Fault::Declined(Declined::Denied),
        Fault::Declined(Declined::Misfit),
        IdentityFault::Nonce.into(),
        token(Outage::Status(599)),
    ] {
        let hint = fault.hint();
        assert!(hint.ends_with('.') && !hint.contains("canary") && !hint.contains("599"), "{hint}");
    }
}

#[tokio::test(start_paused = true)]
async fn scopes_that_were_granted_count_over_those_asked_for() {
    let fake = Fake::new();
    fake.state().granted = json!({"scope": "openid"});
    let login = fake.login(&fake.provider(oidc(), &clock())).await.unwrap();
    assert_eq!(login.tokens.scopes, Scopes::new(["openid"]).unwrap());
    let kept: Value = serde_json::to_value(Exposed(&login.tokens)).unwrap();
    assert_eq!(kept["scopes"], json!(["openid"]));
}
