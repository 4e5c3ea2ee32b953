//! Tests for the connections page.

use std::sync::atomic::Ordering;

use vmcp_auth_store::ProviderName;
use vmcp_core::{UpstreamError, UpstreamKind};

use crate::testing::{Browser, Came, Got, RESOURCE, World, form_request, param};

/// Returns a browser and the tokens of a user who has logged in.
async fn visitor(world: &World, client: &str) -> (Browser, Got) {
    let mut browser = Browser::default();
    let answer = world.log_in_at(&mut browser, &World::authorize(client, &[])).await;
    let got = world.redeem(client, &param(&answer, "code").unwrap(), &[]).await.tokens();
    (browser, got)
}

fn field(page: &Came, name: &str) -> String {
    let from = page.text.split_once(&format!("name=\"{name}\" value=\"")).unwrap().1;
    from.split_once('"').unwrap().0.to_owned()
}

async fn act(world: &World, browser: &mut Browser, action: &str, provider: Option<&str>) -> Came {
    let page = browser.get(world, "/oauth/connections").await;
    let (csrf, session) = (field(&page, "csrf"), field(&page, "session"));
    let mut form = vec![("csrf", csrf.as_str()), ("session", &session), ("action", action)];
    form.extend(provider.map(|provider| ("provider", provider)));
    browser.send(world, form_request("/oauth/connections", &form)).await
}

#[tokio::test]
async fn a_person_sees_what_is_linked_with_which_scopes_and_until_when() {
    let world = World::new();
    world.git.set(|script| script.refresh_token = None);
    let client = world.client().await;
    let (mut browser, _) = visitor(&world, &client).await;
    let page = browser.get(&world, "/oauth/connections").await;
    for part in [
        "alice@example.com",
        "<bdi>Editor</bdi>",
        "<bdi>corp</bdi>",
        "renewed by itself",
        "2026-07-28 13:00 UTC",
    ] {
        assert!(page.text.contains(part), "{part}\n{}", page.text);
    }
    assert!(!page.text.contains("canary"));
    for mut other in [
        Browser::default(),
        Browser { cookie: Some("__Host-vmcp-browser=x".into()), address: None },
    ] {
        assert_eq!(other.get(&world, "/oauth/connections").await.status, 403);
    }
}

#[tokio::test]
async fn a_provider_is_unlinked_and_linked_again_without_losing_the_session() {
    let world = World::new();
    let client = world.client().await;
    let (mut browser, got) = visitor(&world, &client).await;
    let verifier = world.server.verifier(RESOURCE).unwrap();
    let tokens = world.server.tokens(verifier.verify(&got.access).unwrap().session);
    tokens.token("git", UpstreamKind::Access).await.unwrap();

    let came = act(&world, &mut browser, "unlink", Some("git")).await;
    assert_eq!(came.refresh_target(), "https://as.example/oauth/connections");
    assert_eq!(world.git.revokes.load(Ordering::SeqCst), 1);
    let gone = tokens.token("git", UpstreamKind::Access).await;
    assert!(matches!(gone, Err(UpstreamError::NotLinked)));
    assert!(tokens.token("corp", UpstreamKind::Access).await.is_ok());
    assert!(browser.get(&world, "/oauth/connections").await.text.contains("not linked"));

    let git = act(&world, &mut browser, "link", Some("git")).await.refresh_target();
    let back = browser.get(&world, &World::at_provider(&git)).await;
    assert_eq!(back.location(), "https://as.example/oauth/connections");
    assert!(tokens.token("git", UpstreamKind::Access).await.is_ok());
    assert_eq!(world.refresh(&client, &got.refresh).await.status, 200);
}

#[tokio::test]
async fn the_first_provider_is_linked_again_by_the_same_person_alone() {
    let world = World::new();
    let client = world.client().await;
    let (mut browser, got) = visitor(&world, &client).await;
    let corp = act(&world, &mut browser, "link", Some("corp")).await.refresh_target();
    world.corp.set(|script| script.subject = "bob");
    let back = browser.get(&world, &World::at_provider(&corp)).await;
    assert_eq!(back.status, 403);
    assert!(back.text.contains("another account"));
    let token = world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap();
    assert!(world.server.tokens(token.session).token("corp", UpstreamKind::Access).await.is_ok());
}

#[tokio::test]
async fn links_another_account_only_if_person_confirms() {
    let world = World::new();
    let client = world.client().await;
    let (mut browser, got) = visitor(&world, &client).await;
    let session = world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap().session;
    let git = ProviderName::new("git").unwrap();
    let version = async || world.store.session(&session).await.unwrap().unwrap().rows[&git].version;
    let before = version().await;

    let to = act(&world, &mut browser, "link", Some("git")).await.refresh_target();
    world.git.set(|script| script.subject = "mallory");
    let asked = browser.get(&world, &World::at_provider(&to)).await;
    assert_eq!(asked.status, 200);
    assert!(asked.text.contains("This is another account"), "{}", asked.text);
    assert!(!asked.text.contains("canary"));
    assert_eq!(version().await, before, "nothing was changed");

    // The form is valid in its own browser only, with its own token.
    let fields = ["csrf", "session", "provider", "other"].map(|name| (name, field(&asked, name)));
    let mut form: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    form.push(("action", "link"));
    let foreign = world.send(form_request("/oauth/connections", &form)).await;
    assert_eq!(foreign.status, 403);
    let to = browser.send(&world, form_request("/oauth/connections", &form)).await.refresh_target();
    let back = browser.get(&world, &World::at_provider(&to)).await;
    assert_eq!(back.location(), "https://as.example/oauth/connections");
    assert!(version().await > before);

    // The same account needs no confirmation.
    let to = act(&world, &mut browser, "link", Some("git")).await.refresh_target();
    let back = browser.get(&world, &World::at_provider(&to)).await;
    assert_eq!(back.location(), "https://as.example/oauth/connections");
    // The first provider identifies the user, so another account of it cannot be confirmed.
    form[2] = ("provider", "corp");
    let to = browser.send(&world, form_request("/oauth/connections", &form)).await.refresh_target();
    world.corp.set(|script| script.subject = "bob");
    assert_eq!(browser.get(&world, &World::at_provider(&to)).await.status, 403);
}

#[tokio::test]
async fn who_cancels_a_new_link_is_told_so_and_keeps_the_old_one() {
    let world = World::new();
    let client = world.client().await;
    let (mut browser, got) = visitor(&world, &client).await;
    for (error, status, words) in [
        ("access_denied", 403, "You did not log in at the identity provider"),
        ("%3Cb%3Ecanary", 403, "You did not log in at the identity provider"),
        ("server_error", 503, "Try again in a minute"),
        ("invalid_scope", 502, "do not fit together"),
    ] {
        let git = act(&world, &mut browser, "link", Some("git")).await.refresh_target();
        let back = browser.get(&world, &World::not_at_provider(&git, error)).await;
        assert_eq!(back.status, status, "{error}");
        assert!(back.text.contains(words) && !back.text.contains("canary"), "{}", back.text);
    }
    let token = world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap();
    assert!(world.server.tokens(token.session).token("git", UpstreamKind::Access).await.is_ok());
}

#[tokio::test]
async fn logging_an_application_out_ends_its_tokens_and_its_consent() {
    let world = World::new();
    let client = world.client().await;
    let (mut browser, got) = visitor(&world, &client).await;
    act(&world, &mut browser, "end", None).await;
    assert!(world.server.verifier(RESOURCE).unwrap().verify(&got.access).is_err());
    assert_eq!(world.refresh(&client, &got.refresh).await.error(), "invalid_grant");
    assert!(browser.get(&world, "/oauth/connections").await.text.contains("Nothing is connected"));
    assert_eq!(browser.get(&world, &World::authorize(&client, &[])).await.status, 200);
}

#[tokio::test]
async fn a_browser_can_be_forgotten() {
    let world = World::new();
    let client = world.client().await;
    let (mut browser, got) = visitor(&world, &client).await;
    act(&world, &mut browser, "forget", None).await;
    assert_eq!(browser.get(&world, "/oauth/connections").await.status, 403);
    assert!(world.server.verifier(RESOURCE).unwrap().verify(&got.access).is_ok());
}

#[tokio::test]
async fn nobody_changes_another_persons_connections() {
    let world = World::new();
    let client = world.client().await;
    let (mut alice, _) = visitor(&world, &client).await;
    world.corp.set(|script| script.subject = "bob");
    let (mut bob, _) = visitor(&world, &client).await;
    let page = alice.get(&world, "/oauth/connections").await;
    let own = field(&bob.get(&world, "/oauth/connections").await, "csrf");
    let session = field(&page, "session");
    let form = [("csrf", own.as_str()), ("session", &session), ("action", "end")];
    assert_eq!(bob.send(&world, form_request("/oauth/connections", &form)).await.status, 400);
    // A request without the form's token, or from another site.
    let form = [("csrf", "x"), ("session", session.as_str()), ("action", "end")];
    assert_eq!(alice.send(&world, form_request("/oauth/connections", &form)).await.status, 403);
    let csrf = field(&page, "csrf");
    let form = [("csrf", csrf.as_str()), ("session", &session), ("action", "end")];
    let mut request = form_request("/oauth/connections", &form);
    request.headers_mut().insert("sec-fetch-site", "same-site".parse().unwrap());
    assert_eq!(alice.send(&world, request).await.status, 403);
    assert!(alice.get(&world, "/oauth/connections").await.text.contains("Editor"));
}

#[tokio::test]
async fn a_link_to_a_session_that_ended_meanwhile_begins_none() {
    let world = World::new();
    let client = world.client().await;
    let (mut browser, got) = visitor(&world, &client).await;
    let git = act(&world, &mut browser, "link", Some("git")).await.refresh_target();
    let token = world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap();
    world.server.end_session(token.session).await.unwrap();
    let back = browser.get(&world, &World::at_provider(&git)).await;
    assert_eq!(back.status, 502);
    assert_eq!(world.store.counts().await.unwrap().sessions, 0);
}

#[tokio::test]
async fn logins_of_clients_with_one_name_are_told_apart() {
    let world = World::new();
    let client = world.client().await;
    visitor(&world, &client).await;
    let (mut browser, _) = visitor(&world, &client).await;
    let page = browser.get(&world, "/oauth/connections").await;
    for part in ["aria-label=\"Log out, Editor\"", "aria-label=\"Log out, Editor (2)\""] {
        assert!(page.text.contains(part), "{part}\n{}", page.text);
    }
}
