//! Tests for upstream tokens: fresh for all callers, refreshed by one replica, lost for one session only.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use secrecy::ExposeSecret;
use vmcp_auth_store::{ProviderName, SessionId};
use vmcp_core::{UpstreamError, UpstreamKind, UpstreamTokens};
use vmcp_upstream::{EndpointError, EndpointKind, ProviderError, RefreshError};

use crate::testing::{FailingStore, RESOURCE, TestEnv, settings};

struct Session {
    env: TestEnv,
    id: SessionId,
    tokens: Arc<dyn UpstreamTokens>,
}

impl Session {
    async fn new() -> Self {
        let env = TestEnv::new();
        let client = env.client().await;
        let issued = env.tokens(&client).await;
        let id = env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap().session;
        let tokens = env.server.upstream_tokens(id);
        Self { env, id, tokens }
    }

    async fn git(&self) -> Result<String, UpstreamError> {
        access(&*self.tokens, "git").await
    }

    fn refreshes(&self) -> usize {
        self.env.git.refreshes.load(Ordering::SeqCst)
    }

    fn pass(&self, seconds: u64) {
        self.env.clock.advance(Duration::from_secs(seconds));
    }
}

#[tokio::test]
async fn stops_using_unlinked_token_within_one_second() {
    let session = Session::new().await;
    let env = &session.env;
    let replica = TestEnv::with_store(settings(), env.store.clone(), env.clock.clone());
    let there = replica.server.upstream_tokens(session.id);
    let first = access(&*there, "git").await.unwrap();
    let git = ProviderName::new("git").unwrap();
    assert!(env.store.remove_upstream_token(&session.id, &git, None).await.unwrap());
    env.clock.advance(Duration::from_secs(1));
    assert_eq!(access(&*there, "git").await, Err(UpstreamError::NotLinked));
    assert_eq!(other(&*there, &first).await, Err(UpstreamError::NotLinked));
}

#[tokio::test]
async fn link_key_changes_on_link_and_unlink() {
    let session = Session::new().await;
    let env = &session.env;
    let replica = TestEnv::with_store(settings(), env.store.clone(), env.clock.clone());
    let there = replica.server.upstream_tokens(session.id);
    let linked = there.links().await;
    assert!(linked.is_some());
    assert_eq!(session.tokens.links().await, linked, "the same on each replica");
    // A refresh of the tokens does not change the link.
    session.pass(3600);
    session.git().await.unwrap();
    assert_eq!(there.links().await, linked);
    let row = env.store.session(&session.id).await.unwrap().unwrap();
    let git = ProviderName::new("git").unwrap();
    assert!(env.store.remove_upstream_token(&session.id, &git, None).await.unwrap());
    session.pass(1);
    let unlinked = there.links().await;
    assert!(unlinked.is_some() && unlinked != linked);
    env.store
        .put_upstream_token(&row.head, &git, &row.rows[&git], Duration::from_mins(1))
        .await
        .unwrap();
    session.pass(1);
    assert_eq!(there.links().await, linked);
    let other = env.server.upstream_tokens(SessionId::from_bytes([9; 16]));
    assert_ne!(other.session(), there.session());
    assert_eq!(session.tokens.session(), there.session());
}

/// Returns a token other than the one that a backend rejected.
async fn other(tokens: &dyn UpstreamTokens, refused: &str) -> Result<String, UpstreamError> {
    let token = tokens.refresh("git", UpstreamKind::Access, &refused.into()).await?;
    Ok(token.value.expose_secret().to_owned())
}

async fn access(tokens: &dyn UpstreamTokens, provider: &str) -> Result<String, UpstreamError> {
    let token = tokens.token(provider, UpstreamKind::Access).await?;
    Ok(token.value.expose_secret().to_owned())
}

fn temporary() -> RefreshError {
    RefreshError::Temporary(ProviderError::Unavailable {
        endpoint: EndpointKind::Token,
        cause: EndpointError::Timeout,
    })
}

#[tokio::test]
async fn refreshes_token_shortly_before_expiry() {
    let session = Session::new().await;
    assert_eq!(session.git().await.unwrap(), "git-access-canary-0");
    session.pass(3554);
    assert_eq!(session.git().await.unwrap(), "git-access-canary-0");
    session.pass(1);
    assert_eq!(session.git().await.unwrap(), "git-access-canary-1");
    assert_eq!(session.env.corp.refreshes.load(Ordering::SeqCst), 0, "nobody asked for it");
    assert_eq!(access(&*session.tokens, "nobody").await, Err(UpstreamError::NotLinked));
    let id = session.tokens.token("git", UpstreamKind::Id).await.unwrap();
    assert_eq!(id.value.expose_secret(), "git-id-canary");
}

#[tokio::test]
async fn sessions_do_not_share_upstream_tokens() {
    let session = Session::new().await;
    let other = session.env.server.upstream_tokens(SessionId::from_bytes([9; 16]));
    assert_eq!(access(&*other, "git").await, Err(UpstreamError::NotLinked));
}

#[tokio::test(start_paused = true)]
async fn one_caller_refreshes_across_replicas() {
    let session = Session::new().await;
    let env = &session.env;
    let other = TestEnv::with_store(settings(), env.store.clone(), env.clock.clone());
    for fake in [&env.git, &other.git] {
        fake.set(|behavior| behavior.refresh_takes = Duration::from_secs(2));
    }
    session.pass(3600);
    let mut asking = Vec::new();
    for at in 0..200 {
        let server = if at % 2 == 0 { &env.server } else { &other.server };
        let tokens = server.upstream_tokens(session.id);
        asking.push(tokio::spawn(async move { access(&*tokens, "git").await }));
    }
    for one in asking {
        assert_eq!(one.await.unwrap().unwrap(), "git-access-canary-1");
    }
    let refreshes = session.refreshes() + other.git.refreshes.load(Ordering::SeqCst);
    assert_eq!(refreshes, 1);
}

#[tokio::test(start_paused = true)]
async fn one_caller_replaces_rejected_token_across_replicas() {
    let session = Session::new().await;
    let env = &session.env;
    let replica = TestEnv::with_store(settings(), env.store.clone(), env.clock.clone());
    for fake in [&env.git, &replica.git] {
        fake.set(|behavior| behavior.refresh_takes = Duration::from_secs(2));
    }
    let first = "git-access-canary-0";
    let (here, there) = (session.tokens.clone(), replica.server.upstream_tokens(session.id));
    // Both replicas have the token in their cache, and it is valid for an hour.
    assert_eq!(access(&*here, "git").await.unwrap(), first);
    assert_eq!(access(&*there, "git").await.unwrap(), first);
    let mut asking = Vec::new();
    for at in 0..200 {
        let tokens = if at % 2 == 0 { here.clone() } else { there.clone() };
        asking.push(tokio::spawn(async move { other(&*tokens, first).await }));
    }
    for one in asking {
        assert_eq!(one.await.unwrap().unwrap(), "git-access-canary-1");
    }
    let refreshes = || session.refreshes() + replica.git.refreshes.load(Ordering::SeqCst);
    assert_eq!(refreshes(), 1);
    // A late caller with the rejected token gets the new one, and so does a caller without a rejected token.
    assert_eq!(other(&*here, first).await.unwrap(), "git-access-canary-1");
    assert_eq!(access(&*there, "git").await.unwrap(), "git-access-canary-1");
    assert_eq!(refreshes(), 1);
}

#[tokio::test]
async fn limits_refreshes_forced_by_backend() {
    let session = Session::new().await;
    for (seconds, refreshes) in [(0, 1), (29, 1), (1, 2), (1, 2)] {
        session.pass(seconds);
        let shown = session.git().await.unwrap();
        let asked = other(&*session.tokens, &shown).await;
        assert_eq!(session.refreshes(), refreshes, "{asked:?}");
        assert_eq!(session.env.server.stats().backed_off, 1);
        assert!(session.git().await.is_ok());
    }
}

#[tokio::test]
async fn failed_refresh_keeps_token_until_grant_ends() {
    let session = Session::new().await;
    let first = session.git().await.unwrap();
    session.env.git.set(|behavior| behavior.refresh = Some(temporary()));
    assert_eq!(other(&*session.tokens, &first).await, Err(UpstreamError::Unavailable));
    assert_eq!(session.git().await.unwrap(), first, "good for whoever takes it");
    session.pass(40);
    session.env.git.set(|behavior| behavior.refresh = Some(RefreshError::GrantEnded));
    assert_eq!(other(&*session.tokens, &first).await, Err(UpstreamError::NotLinked));
    assert_eq!(session.git().await, Err(UpstreamError::NotLinked));
    assert!(access(&*session.tokens, "corp").await.is_ok());
    // The fake returns the same ID token each time.
    let id = session.tokens.token("corp", UpstreamKind::Id).await.unwrap().value;
    let asked = session.tokens.refresh("corp", UpstreamKind::Id, &id).await;
    assert_eq!(asked.err(), Some(UpstreamError::Unavailable));

    let env = TestEnv::new();
    env.git.set(|behavior| behavior.refresh_token = None);
    let issued = env.tokens(&env.client().await).await;
    let id = env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap().session;
    let tokens = env.server.upstream_tokens(id);
    let first = access(&*tokens, "git").await.unwrap();
    assert_eq!(other(&*tokens, &first).await, Err(UpstreamError::Unavailable));
    assert_eq!(access(&*tokens, "git").await.unwrap(), first);
}

#[tokio::test(start_paused = true)]
async fn refresh_continues_after_caller_is_gone() {
    let session = Session::new().await;
    session.env.git.set(|behavior| behavior.refresh_takes = Duration::from_secs(2));
    session.pass(3600);
    let asked = tokio::time::timeout(Duration::from_secs(1), session.git()).await;
    assert!(asked.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(session.git().await.unwrap(), "git-access-canary-1");
    assert_eq!(session.refreshes(), 1);
}

#[tokio::test]
async fn ended_grant_affects_only_its_provider() {
    let session = Session::new().await;
    for cause in [RefreshError::GrantEnded, RefreshError::SubjectChanged] {
        session.env.git.set(|behavior| behavior.refresh = Some(cause));
        session.pass(3600);
        assert_eq!(session.git().await, Err(UpstreamError::NotLinked));
    }
    assert_eq!(session.refreshes(), 1, "a row that is gone is not refreshed");
    assert!(access(&*session.tokens, "corp").await.is_ok());
    let kept = session.env.store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(kept.rows.len(), 1);
}

#[tokio::test]
async fn backs_off_from_unavailable_provider() {
    let session = Session::new().await;
    session.env.git.set(|behavior| behavior.refresh = Some(temporary()));
    session.pass(3560);
    assert_eq!(session.git().await.unwrap(), "git-access-canary-0", "it is still good");
    session.pass(40);
    let mut asked = Vec::new();
    for second in 0..70 {
        assert_eq!(session.git().await, Err(UpstreamError::Unavailable));
        if asked.last() != Some(&session.refreshes()) {
            asked.push(session.refreshes());
        }
        session.pass(1);
        assert!(second < 70);
    }
    assert!((5..=8).contains(&session.refreshes()), "{}", session.refreshes());
    session.env.git.set(|behavior| behavior.refresh = None);
    session.pass(31);
    assert!(session.git().await.unwrap().starts_with("git-access-canary-"));
}

#[tokio::test(start_paused = true)]
async fn refresh_times_out() {
    let session = Session::new().await;
    session.env.git.set(|behavior| behavior.refresh_takes = Duration::from_hours(1));
    session.pass(3600);
    assert_eq!(session.git().await, Err(UpstreamError::Unavailable));
}

#[tokio::test]
async fn token_without_refresh_token_lasts_until_expiry() {
    let env = TestEnv::new();
    env.git.set(|behavior| behavior.refresh_token = None);
    let client = env.client().await;
    let issued = env.tokens(&client).await;
    let id = env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap().session;
    let tokens = env.server.upstream_tokens(id);
    env.clock.advance(Duration::from_secs(3599));
    assert!(access(&*tokens, "git").await.is_ok());
    env.clock.advance(Duration::from_secs(1));
    assert_eq!(access(&*tokens, "git").await, Err(UpstreamError::NotLinked));
    // A token without an expiry stays.
    env.git.set(|behavior| behavior.expires_in = None);
    let issued = env.tokens(&client).await;
    let id = env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap().session;
    env.clock.advance(Duration::from_secs(100));
    assert!(access(&*env.server.upstream_tokens(id), "git").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn drops_rotated_tokens_that_were_not_stored() {
    let session = Session::new().await;
    let env = &session.env;
    // The replica dies between the provider's response and the store.
    let store = FailingStore::new(env.store.clone(), 3, false);
    let other = TestEnv::with_store(settings(), store, env.clock.clone());
    session.pass(3600);
    let tokens = other.server.upstream_tokens(session.id);
    assert_eq!(access(&*tokens, "git").await, Err(UpstreamError::NotLinked));
    assert_eq!(other.git.refreshes.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn unavailable_store_is_a_temporary_error() {
    let session = Session::new().await;
    let env = &session.env;
    let other = TestEnv::with_store(
        settings(),
        FailingStore::new(env.store.clone(), 1, false),
        env.clock.clone(),
    );
    let tokens = other.server.upstream_tokens(session.id);
    assert_eq!(access(&*tokens, "git").await, Err(UpstreamError::Unavailable));
    // A row encrypted with another secret counts as missing.
    let mut foreign = settings();
    foreign.hmac = crate::HmacKeyRing::new(&[vec![8; 32].into()]).unwrap();
    let other = TestEnv::with_store(foreign, env.store.clone(), env.clock.clone());
    assert_eq!(
        access(&*other.server.upstream_tokens(session.id), "git").await,
        Err(UpstreamError::NotLinked)
    );
}

#[tokio::test]
async fn ended_session_has_no_upstream_tokens() {
    let session = Session::new().await;
    session.git().await.unwrap();
    session.env.server.end_session(session.id).await.unwrap();
    assert_eq!(session.git().await, Err(UpstreamError::NotLinked));
    let provider = ProviderName::new("git").unwrap();
    assert!(!session.env.store.remove_upstream_token(&session.id, &provider, None).await.unwrap());
}
