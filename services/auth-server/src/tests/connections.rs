//! Tests for the connections page.

use std::sync::atomic::Ordering;

use vmcp_auth_store::ProviderName;
use vmcp_core::{UpstreamError, UpstreamKind};

use crate::testing::{RESOURCE, TestEnv, TestResponse, TokenPair, UserAgent, form_request, param};

/// Returns a browser and the tokens of a user who has logged in.
async fn logged_in_browser(env: &TestEnv, client: &str) -> (UserAgent, TokenPair) {
    let mut browser = UserAgent::default();
    let answer = env.log_in_at(&mut browser, &TestEnv::authorize(client, &[])).await;
    let issued = env.redeem(client, &param(&answer, "code").unwrap(), &[]).await.tokens();
    (browser, issued)
}

fn field(page: &TestResponse, name: &str) -> String {
    let from = page.text.split_once(&format!("name=\"{name}\" value=\"")).unwrap().1;
    from.split_once('"').unwrap().0.to_owned()
}

async fn act(
    env: &TestEnv,
    browser: &mut UserAgent,
    action: &str,
    provider: Option<&str>,
) -> TestResponse {
    let page = browser.get(env, "/oauth/connections").await;
    let (csrf, session) = (field(&page, "csrf"), field(&page, "session"));
    let mut form = vec![("csrf", csrf.as_str()), ("session", &session), ("action", action)];
    form.extend(provider.map(|provider| ("provider", provider)));
    browser.send(env, form_request("/oauth/connections", &form)).await
}

#[tokio::test]
async fn connections_page_lists_links_scopes_and_expiry() {
    let env = TestEnv::new();
    env.git.set(|behavior| behavior.refresh_token = None);
    let client = env.client().await;
    let (mut browser, _) = logged_in_browser(&env, &client).await;
    let page = browser.get(&env, "/oauth/connections").await;
    for part in [
        "alice@example.com",
        "<bdi>Editor</bdi>",
        "<bdi>corp</bdi>",
        "refreshed automatically",
        "2026-07-28 13:00 UTC",
    ] {
        assert!(page.text.contains(part), "{part}\n{}", page.text);
    }
    assert!(!page.text.contains("canary"));
    for mut other in [
        UserAgent::default(),
        UserAgent { cookie: Some("__Host-vmcp-browser=x".into()), address: None },
    ] {
        assert_eq!(other.get(&env, "/oauth/connections").await.status, 403);
    }
}

#[tokio::test]
async fn relinking_provider_keeps_session() {
    let env = TestEnv::new();
    let client = env.client().await;
    let (mut browser, issued) = logged_in_browser(&env, &client).await;
    let verifier = env.server.verifier(RESOURCE).unwrap();
    let tokens = env.server.upstream_tokens(verifier.verify(&issued.access).unwrap().session);
    tokens.token("git", UpstreamKind::Access).await.unwrap();

    let response = act(&env, &mut browser, "unlink", Some("git")).await;
    assert_eq!(response.refresh_target(), "https://as.example/oauth/connections");
    assert_eq!(env.git.revokes.load(Ordering::SeqCst), 1);
    let gone = tokens.token("git", UpstreamKind::Access).await;
    assert!(matches!(gone, Err(UpstreamError::NotLinked)));
    assert!(tokens.token("corp", UpstreamKind::Access).await.is_ok());
    assert!(browser.get(&env, "/oauth/connections").await.text.contains("Not linked"));

    let git = act(&env, &mut browser, "link", Some("git")).await.refresh_target();
    let back = browser.get(&env, &TestEnv::provider_callback(&git)).await;
    assert_eq!(back.location(), "https://as.example/oauth/connections");
    assert!(tokens.token("git", UpstreamKind::Access).await.is_ok());
    assert_eq!(env.refresh(&client, &issued.refresh).await.status, 200);
}

#[tokio::test]
async fn only_same_user_relinks_first_provider() {
    let env = TestEnv::new();
    let client = env.client().await;
    let (mut browser, issued) = logged_in_browser(&env, &client).await;
    let corp = act(&env, &mut browser, "link", Some("corp")).await.refresh_target();
    env.corp.set(|behavior| behavior.subject = "bob");
    let back = browser.get(&env, &TestEnv::provider_callback(&corp)).await;
    assert_eq!(back.status, 403);
    assert!(back.text.contains("another account"));
    let token = env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap();
    assert!(
        env.server.upstream_tokens(token.session).token("corp", UpstreamKind::Access).await.is_ok()
    );
}

#[tokio::test]
async fn links_other_account_only_after_confirmation() {
    let env = TestEnv::new();
    let client = env.client().await;
    let (mut browser, issued) = logged_in_browser(&env, &client).await;
    let session = env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap().session;
    let git = ProviderName::new("git").unwrap();
    let version = async || env.store.session(&session).await.unwrap().unwrap().rows[&git].version;
    let before = version().await;

    let to = act(&env, &mut browser, "link", Some("git")).await.refresh_target();
    env.git.set(|behavior| behavior.subject = "mallory");
    let asked = browser.get(&env, &TestEnv::provider_callback(&to)).await;
    assert_eq!(asked.status, 200);
    assert!(asked.text.contains("This is another account"), "{}", asked.text);
    assert!(!asked.text.contains("canary"));
    assert_eq!(version().await, before, "nothing was changed");

    // The form is valid in its own browser only, with its own token.
    let fields = ["csrf", "session", "provider", "other"].map(|name| (name, field(&asked, name)));
    let mut form: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    form.push(("action", "link"));
    let foreign = env.send(form_request("/oauth/connections", &form)).await;
    assert_eq!(foreign.status, 403);
    let to = browser.send(&env, form_request("/oauth/connections", &form)).await.refresh_target();
    let back = browser.get(&env, &TestEnv::provider_callback(&to)).await;
    assert_eq!(back.location(), "https://as.example/oauth/connections");
    assert!(version().await > before);

    // The same account needs no confirmation.
    let to = act(&env, &mut browser, "link", Some("git")).await.refresh_target();
    let back = browser.get(&env, &TestEnv::provider_callback(&to)).await;
    assert_eq!(back.location(), "https://as.example/oauth/connections");
    // The first provider identifies the user, so another account of it cannot be confirmed.
    form[2] = ("provider", "corp");
    let to = browser.send(&env, form_request("/oauth/connections", &form)).await.refresh_target();
    env.corp.set(|behavior| behavior.subject = "bob");
    assert_eq!(browser.get(&env, &TestEnv::provider_callback(&to)).await.status, 403);
}

#[tokio::test]
async fn cancelled_relink_keeps_old_link() {
    let env = TestEnv::new();
    let client = env.client().await;
    let (mut browser, issued) = logged_in_browser(&env, &client).await;
    for (error, status, words) in [
        ("access_denied", 403, "Login cancelled or denied"),
        ("%3Cb%3Ecanary", 403, "Login cancelled or denied"),
        ("server_error", 503, "Try again in a minute"),
        ("invalid_scope", 502, "Mismatched configuration"),
    ] {
        let git = act(&env, &mut browser, "link", Some("git")).await.refresh_target();
        let back = browser.get(&env, &TestEnv::provider_error_callback(&git, error)).await;
        assert_eq!(back.status, status, "{error}");
        assert!(back.text.contains(words) && !back.text.contains("canary"), "{}", back.text);
    }
    let token = env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap();
    assert!(
        env.server.upstream_tokens(token.session).token("git", UpstreamKind::Access).await.is_ok()
    );
}

#[tokio::test]
async fn logout_ends_tokens_and_consent_of_client() {
    let env = TestEnv::new();
    let client = env.client().await;
    let (mut browser, issued) = logged_in_browser(&env, &client).await;
    act(&env, &mut browser, "end", None).await;
    assert!(env.server.verifier(RESOURCE).unwrap().verify(&issued.access).is_err());
    assert_eq!(env.refresh(&client, &issued.refresh).await.error(), "invalid_grant");
    assert!(browser.get(&env, "/oauth/connections").await.text.contains("No connections"));
    assert_eq!(browser.get(&env, &TestEnv::authorize(&client, &[])).await.status, 200);
}

#[tokio::test]
async fn forgets_browser_on_request() {
    let env = TestEnv::new();
    let client = env.client().await;
    let (mut browser, issued) = logged_in_browser(&env, &client).await;
    act(&env, &mut browser, "forget", None).await;
    assert_eq!(browser.get(&env, "/oauth/connections").await.status, 403);
    assert!(env.server.verifier(RESOURCE).unwrap().verify(&issued.access).is_ok());
}

#[tokio::test]
async fn rejects_changes_to_connections_of_others() {
    let env = TestEnv::new();
    let client = env.client().await;
    let (mut alice, _) = logged_in_browser(&env, &client).await;
    env.corp.set(|behavior| behavior.subject = "bob");
    let (mut bob, _) = logged_in_browser(&env, &client).await;
    let page = alice.get(&env, "/oauth/connections").await;
    let own = field(&bob.get(&env, "/oauth/connections").await, "csrf");
    let session = field(&page, "session");
    let form = [("csrf", own.as_str()), ("session", &session), ("action", "end")];
    assert_eq!(bob.send(&env, form_request("/oauth/connections", &form)).await.status, 400);
    // A request without the form's token, or from another site.
    let form = [("csrf", "x"), ("session", session.as_str()), ("action", "end")];
    assert_eq!(alice.send(&env, form_request("/oauth/connections", &form)).await.status, 403);
    let csrf = field(&page, "csrf");
    let form = [("csrf", csrf.as_str()), ("session", &session), ("action", "end")];
    let mut request = form_request("/oauth/connections", &form);
    request.headers_mut().insert("sec-fetch-site", "same-site".parse().unwrap());
    assert_eq!(alice.send(&env, request).await.status, 403);
    assert!(alice.get(&env, "/oauth/connections").await.text.contains("Editor"));
}

#[tokio::test]
async fn relink_never_revives_ended_session() {
    let env = TestEnv::new();
    let client = env.client().await;
    let (mut browser, issued) = logged_in_browser(&env, &client).await;
    let git = act(&env, &mut browser, "link", Some("git")).await.refresh_target();
    let token = env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap();
    env.server.end_session(token.session).await.unwrap();
    let back = browser.get(&env, &TestEnv::provider_callback(&git)).await;
    assert_eq!(back.status, 502);
    assert_eq!(env.store.counts().await.unwrap().sessions, 0);
}

#[tokio::test]
async fn numbers_clients_with_equal_names() {
    let env = TestEnv::new();
    let client = env.client().await;
    logged_in_browser(&env, &client).await;
    let (mut browser, _) = logged_in_browser(&env, &client).await;
    let page = browser.get(&env, "/oauth/connections").await;
    for part in ["aria-label=\"Log out, Editor\"", "aria-label=\"Log out, Editor (2)\""] {
        assert!(page.text.contains(part), "{part}\n{}", page.text);
    }
}
