//! Tests for an identity provider that no longer knows the user.

use std::sync::atomic::Ordering;
use std::time::Duration;

use vmcp_auth_store::SessionId;
use vmcp_core::{UpstreamError, UpstreamKind};
use vmcp_upstream::{EndpointError, EndpointKind, ProviderError, RefreshError};

use crate::testing::{RESOURCE, TestEnv, TokenPair, UserAgent, form_request, param, settings};

const HOUR: Duration = Duration::from_hours(1);

fn end_provider_grant(env: &TestEnv) {
    env.corp.set(|behavior| behavior.refresh = Some(RefreshError::GrantEnded));
}

fn session(env: &TestEnv, issued: &TokenPair) -> SessionId {
    env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap().session
}

fn is_valid(env: &TestEnv, issued: &TokenPair) -> bool {
    env.server.verifier(RESOURCE).unwrap().verify(&issued.access).is_ok()
}

/// Runs spawned tasks while the runtime's clock is paused.
async fn run_spawned_tasks() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn refresh_ends_session_of_rejected_user() {
    let env = TestEnv::new();
    let client = env.client().await;
    let issued = env.tokens(&client).await;
    env.clock.advance(HOUR);
    let issued = env.refresh(&client, &issued.refresh).await.tokens();
    assert_eq!(env.corp.refreshes.load(Ordering::SeqCst), 1);
    end_provider_grant(&env);
    env.clock.advance(Duration::from_secs(3600 - 1));
    let issued = env.refresh(&client, &issued.refresh).await.tokens();
    assert_eq!(env.corp.refreshes.load(Ordering::SeqCst), 1, "not asked within an hour");
    env.clock.advance(Duration::from_secs(1));
    assert_eq!(env.refresh(&client, &issued.refresh).await.error(), "invalid_grant");
    assert!(!is_valid(&env, &issued));
    assert_eq!(env.store.counts().await.unwrap().sessions, 0);
}

#[tokio::test]
async fn checks_user_at_configured_interval() {
    let mut settings = settings();
    settings.upstream_check_interval = Duration::from_mins(1);
    let env = TestEnv::with(settings, vmcp_auth_store::Limits::default());
    let client = env.client().await;
    let mut issued = env.tokens(&client).await;
    for (seconds, asked) in [(59, 0), (1, 1), (30, 1), (30, 2)] {
        env.clock.advance(Duration::from_secs(seconds));
        issued = env.refresh(&client, &issued.refresh).await.tokens();
        assert_eq!(env.corp.refreshes.load(Ordering::SeqCst), asked);
    }
}

#[tokio::test]
async fn rejection_during_backend_call_ends_session() {
    let env = TestEnv::new();
    let client = env.client().await;
    let issued = env.tokens(&client).await;
    let tokens = env.server.upstream_tokens(session(&env, &issued));
    end_provider_grant(&env);
    env.clock.advance(Duration::from_secs(3600 - 10));
    let outcome = tokens.token("corp", UpstreamKind::Access).await;
    assert!(matches!(outcome, Err(UpstreamError::NotLinked)), "{outcome:?}");
    assert!(!is_valid(&env, &issued));
    assert_eq!(env.refresh(&client, &issued.refresh).await.error(), "invalid_grant");
}

#[tokio::test(start_paused = true)]
async fn rejection_triggers_check_of_other_sessions() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mine = [env.tokens(&client).await, env.tokens(&client).await];
    let late = env.tokens(&client).await;
    env.corp.set(|behavior| behavior.subject = "bob");
    let bob = env.tokens(&client).await;
    env.corp.set(|behavior| behavior.subject = "alice");
    env.clock.advance(Duration::from_secs(3600 - 5));
    end_provider_grant(&env);
    let tokens = env.server.upstream_tokens(session(&env, &mine[0]));
    assert!(tokens.token("corp", UpstreamKind::Access).await.is_err());
    run_spawned_tasks().await;
    assert!(!is_valid(&env, &mine[1]) && !is_valid(&env, &late), "all are alice's");
    assert!(is_valid(&env, &bob));
    assert_eq!(env.corp.refreshes.load(Ordering::SeqCst), 3, "each session once");
}

#[tokio::test(start_paused = true)]
async fn dead_token_leaves_other_sessions_alone() {
    let env = TestEnv::new();
    let client = env.client().await;
    env.corp.set(|behavior| behavior.refresh_token = Some("old"));
    let old = env.tokens(&client).await;
    env.corp.set(|behavior| behavior.refresh_token = Some("new"));
    let other = env.tokens(&client).await;
    env.corp.set(|behavior| behavior.dead = Some("old"));
    env.clock.advance(Duration::from_secs(3600 - 5));
    assert!(is_valid(&env, &other));
    let tokens = env.server.upstream_tokens(session(&env, &old));
    assert!(tokens.token("corp", UpstreamKind::Access).await.is_err());
    run_spawned_tasks().await;
    assert_eq!(env.corp.refreshes.load(Ordering::SeqCst), 2, "it is asked about the other");
    assert!(is_valid(&env, &other));
    assert_eq!(env.refresh(&client, &other.refresh).await.status, 200);
}

#[tokio::test]
async fn unavailable_provider_ends_no_session() {
    let env = TestEnv::new();
    let client = env.client().await;
    let issued = env.tokens(&client).await;
    let away =
        ProviderError::Unavailable { endpoint: EndpointKind::Token, cause: EndpointError::Timeout };
    env.corp.set(|behavior| behavior.refresh = Some(RefreshError::Temporary(away)));
    env.clock.advance(HOUR);
    let issued = env.refresh(&client, &issued.refresh).await.tokens();
    // The next refresh asks the provider again.
    end_provider_grant(&env);
    env.clock.advance(Duration::from_mins(1));
    assert_eq!(env.refresh(&client, &issued.refresh).await.error(), "invalid_grant");
}

#[tokio::test]
async fn session_continues_without_provider_refresh_token() {
    let env = TestEnv::new();
    env.corp.set(|behavior| behavior.refresh_token = None);
    let client = env.client().await;
    let mut issued = env.tokens(&client).await;
    for _ in 0..3 {
        env.clock.advance(HOUR * 2);
        issued = env.refresh(&client, &issued.refresh).await.tokens();
    }
    assert_eq!(env.corp.refreshes.load(Ordering::SeqCst), 0);
}

/// After an unlink of the first provider, the user could never be checked again.
#[tokio::test]
async fn session_ends_once_first_provider_is_unlinked() {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let answer = env.log_in_at(&mut browser, &TestEnv::authorize(&client, &[])).await;
    let issued = env.redeem(&client, &param(&answer, "code").unwrap(), &[]).await.tokens();
    let page = browser.get(&env, "/oauth/connections").await;
    let field = |name: &str| {
        let from = page.text.split_once(&format!("name=\"{name}\" value=\"")).unwrap().1;
        from.split_once('"').unwrap().0.to_owned()
    };
    let (csrf, session) = (field("csrf"), field("session"));
    let form =
        [("csrf", &*csrf), ("session", &*session), ("action", "unlink"), ("provider", "corp")];
    browser.send(&env, form_request("/oauth/connections", &form)).await;
    assert!(is_valid(&env, &issued));
    assert_eq!(env.refresh(&client, &issued.refresh).await.error(), "invalid_grant");
    assert!(!is_valid(&env, &issued));
}
