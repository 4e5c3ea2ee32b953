//! Tests for an identity provider that no longer knows the user.

use std::sync::atomic::Ordering;
use std::time::Duration;

use vmcp_auth_store::SessionId;
use vmcp_core::{UpstreamError, UpstreamKind};
use vmcp_upstream::{EndpointError, EndpointKind, ProviderError, RefreshError};

use crate::testing::{Browser, Got, RESOURCE, World, form_request, param, settings};

const HOUR: Duration = Duration::from_secs(3600);

fn refuses(world: &World) {
    world.corp.set(|script| script.refresh = Some(RefreshError::GrantEnded));
}

fn session(world: &World, got: &Got) -> SessionId {
    world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap().session
}

fn is_valid(world: &World, got: &Got) -> bool {
    world.server.verifier(RESOURCE).unwrap().verify(&got.access).is_ok()
}

/// Runs spawned tasks while the runtime's clock is paused.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn refresh_ends_session_of_refused_person() {
    let world = World::new();
    let client = world.client().await;
    let got = world.tokens(&client).await;
    world.clock.advance(HOUR);
    let got = world.refresh(&client, &got.refresh).await.tokens();
    assert_eq!(world.corp.refreshes.load(Ordering::SeqCst), 1);
    refuses(&world);
    world.clock.advance(Duration::from_secs(3600 - 1));
    let got = world.refresh(&client, &got.refresh).await.tokens();
    assert_eq!(world.corp.refreshes.load(Ordering::SeqCst), 1, "not asked within an hour");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.refresh(&client, &got.refresh).await.error(), "invalid_grant");
    assert!(!is_valid(&world, &got));
    assert_eq!(world.store.counts().await.unwrap().sessions, 0);
}

#[tokio::test]
async fn asks_at_configured_interval() {
    let mut settings = settings();
    settings.upstream_check_interval = Duration::from_secs(60);
    let world = World::with(settings, vmcp_auth_store::Limits::default());
    let client = world.client().await;
    let mut got = world.tokens(&client).await;
    for (seconds, asked) in [(59, 0), (1, 1), (30, 1), (30, 2)] {
        world.clock.advance(Duration::from_secs(seconds));
        got = world.refresh(&client, &got.refresh).await.tokens();
        assert_eq!(world.corp.refreshes.load(Ordering::SeqCst), asked);
    }
}

#[tokio::test]
async fn refusal_while_backend_is_called_ends_session() {
    let world = World::new();
    let client = world.client().await;
    let got = world.tokens(&client).await;
    let tokens = world.server.tokens(session(&world, &got));
    refuses(&world);
    world.clock.advance(Duration::from_secs(3600 - 10));
    let outcome = tokens.token("corp", UpstreamKind::Access).await;
    assert!(matches!(outcome, Err(UpstreamError::NotLinked)), "{outcome:?}");
    assert!(!is_valid(&world, &got));
    assert_eq!(world.refresh(&client, &got.refresh).await.error(), "invalid_grant");
}

#[tokio::test(start_paused = true)]
async fn refusal_has_other_sessions_checked() {
    let world = World::new();
    let client = world.client().await;
    let mine = [world.tokens(&client).await, world.tokens(&client).await];
    let late = world.tokens(&client).await;
    world.corp.set(|script| script.subject = "bob");
    let bob = world.tokens(&client).await;
    world.corp.set(|script| script.subject = "alice");
    world.clock.advance(Duration::from_secs(3600 - 5));
    refuses(&world);
    let tokens = world.server.tokens(session(&world, &mine[0]));
    assert!(tokens.token("corp", UpstreamKind::Access).await.is_err());
    settle().await;
    assert!(!is_valid(&world, &mine[1]) && !is_valid(&world, &late), "all are alice's");
    assert!(is_valid(&world, &bob));
    assert_eq!(world.corp.refreshes.load(Ordering::SeqCst), 3, "each session once");
}

#[tokio::test(start_paused = true)]
async fn dead_token_of_one_session_leaves_others() {
    let world = World::new();
    let client = world.client().await;
    world.corp.set(|script| script.refresh_token = Some("old"));
    let old = world.tokens(&client).await;
    world.corp.set(|script| script.refresh_token = Some("new"));
    let other = world.tokens(&client).await;
    world.corp.set(|script| script.dead = Some("old"));
    world.clock.advance(Duration::from_secs(3600 - 5));
    assert!(is_valid(&world, &other));
    let tokens = world.server.tokens(session(&world, &old));
    assert!(tokens.token("corp", UpstreamKind::Access).await.is_err());
    settle().await;
    assert_eq!(world.corp.refreshes.load(Ordering::SeqCst), 2, "it is asked about the other");
    assert!(is_valid(&world, &other));
    assert_eq!(world.refresh(&client, &other.refresh).await.status, 200);
}

#[tokio::test]
async fn provider_that_is_away_ends_nothing() {
    let world = World::new();
    let client = world.client().await;
    let got = world.tokens(&client).await;
    let away =
        ProviderError::Unavailable { endpoint: EndpointKind::Token, cause: EndpointError::Timeout };
    world.corp.set(|script| script.refresh = Some(RefreshError::Temporary(away)));
    world.clock.advance(HOUR);
    let got = world.refresh(&client, &got.refresh).await.tokens();
    // The next refresh asks the provider again.
    refuses(&world);
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(world.refresh(&client, &got.refresh).await.error(), "invalid_grant");
}

#[tokio::test]
async fn session_without_refresh_token_of_provider_goes_on() {
    let world = World::new();
    world.corp.set(|script| script.refresh_token = None);
    let client = world.client().await;
    let mut got = world.tokens(&client).await;
    for _ in 0..3 {
        world.clock.advance(HOUR * 2);
        got = world.refresh(&client, &got.refresh).await.tokens();
    }
    assert_eq!(world.corp.refreshes.load(Ordering::SeqCst), 0);
}

/// After an unlink of the first provider, the user could never be checked again.
#[tokio::test]
async fn session_ends_once_first_provider_is_unlinked() {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let answer = world.log_in_at(&mut browser, &World::authorize(&client, &[])).await;
    let got = world.redeem(&client, &param(&answer, "code").unwrap(), &[]).await.tokens();
    let page = browser.get(&world, "/oauth/connections").await;
    let field = |name: &str| {
        let from = page.text.split_once(&format!("name=\"{name}\" value=\"")).unwrap().1;
        from.split_once('"').unwrap().0.to_owned()
    };
    let (csrf, session) = (field("csrf"), field("session"));
    let form =
        [("csrf", &*csrf), ("session", &*session), ("action", "unlink"), ("provider", "corp")];
    browser.send(&world, form_request("/oauth/connections", &form)).await;
    assert!(is_valid(&world, &got));
    assert_eq!(world.refresh(&client, &got.refresh).await.error(), "invalid_grant");
    assert!(!is_valid(&world, &got));
}
