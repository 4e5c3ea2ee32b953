//! Tests for upstream tokens: fresh for all callers, refreshed by one replica, lost for one session only.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use secrecy::ExposeSecret;
use vmcp_auth_store::{ProviderName, SessionId};
use vmcp_core::{UpstreamError, UpstreamKind, UpstreamTokens};
use vmcp_upstream::{EndpointError, EndpointKind, ProviderError, RefreshError};

use crate::testing::{RESOURCE, Watched, World, settings};

struct Session {
    world: World,
    id: SessionId,
    tokens: Arc<dyn UpstreamTokens>,
}

impl Session {
    async fn new() -> Self {
        let world = World::new();
        let client = world.client().await;
        let got = world.tokens(&client).await;
        let id = world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap().session;
        let tokens = world.server.tokens(id);
        Self { world, id, tokens }
    }

    async fn git(&self) -> Result<String, UpstreamError> {
        access(&*self.tokens, "git").await
    }

    fn refreshes(&self) -> usize {
        self.world.git.refreshes.load(Ordering::SeqCst)
    }

    fn pass(&self, seconds: u64) {
        self.world.clock.advance(Duration::from_secs(seconds));
    }
}

#[tokio::test]
async fn uses_no_unlinked_token_for_longer_than_a_second() {
    let session = Session::new().await;
    let world = &session.world;
    let replica = World::over(settings(), world.store.clone(), world.clock.clone());
    let there = replica.server.tokens(session.id);
    let first = access(&*there, "git").await.unwrap();
    let git = ProviderName::new("git").unwrap();
    assert!(world.store.remove_upstream_token(&session.id, &git, None).await.unwrap());
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(access(&*there, "git").await, Err(UpstreamError::NotLinked));
    assert_eq!(other(&*there, &first).await, Err(UpstreamError::NotLinked));
}

#[tokio::test]
async fn links_have_another_key_after_link_or_unlink() {
    let session = Session::new().await;
    let world = &session.world;
    let replica = World::over(settings(), world.store.clone(), world.clock.clone());
    let there = replica.server.tokens(session.id);
    let linked = there.links().await;
    assert!(linked.is_some());
    assert_eq!(session.tokens.links().await, linked, "the same on each replica");
    // A refresh of the tokens does not change the link.
    session.pass(3600);
    session.git().await.unwrap();
    assert_eq!(there.links().await, linked);
    let row = world.store.session(&session.id).await.unwrap().unwrap();
    let git = ProviderName::new("git").unwrap();
    assert!(world.store.remove_upstream_token(&session.id, &git, None).await.unwrap());
    session.pass(1);
    let unlinked = there.links().await;
    assert!(unlinked.is_some() && unlinked != linked);
    world
        .store
        .put_upstream_token(&row.head, &git, &row.rows[&git], Duration::from_secs(60))
        .await
        .unwrap();
    session.pass(1);
    assert_eq!(there.links().await, linked);
    let other = world.server.tokens(SessionId::from_bytes([9; 16]));
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
async fn a_token_is_refreshed_shortly_before_it_expires() {
    let session = Session::new().await;
    assert_eq!(session.git().await.unwrap(), "git-access-canary-0");
    session.pass(3554);
    assert_eq!(session.git().await.unwrap(), "git-access-canary-0");
    session.pass(1);
    assert_eq!(session.git().await.unwrap(), "git-access-canary-1");
    assert_eq!(session.world.corp.refreshes.load(Ordering::SeqCst), 0, "nobody asked for it");
    assert_eq!(access(&*session.tokens, "nobody").await, Err(UpstreamError::NotLinked));
    let id = session.tokens.token("git", UpstreamKind::Id).await.unwrap();
    assert_eq!(id.value.expose_secret(), "git-id-canary");
}

#[tokio::test]
async fn another_session_has_tokens_of_its_own() {
    let session = Session::new().await;
    let other = session.world.server.tokens(SessionId::from_bytes([9; 16]));
    assert_eq!(access(&*other, "git").await, Err(UpstreamError::NotLinked));
}

#[tokio::test(start_paused = true)]
async fn of_many_that_ask_on_two_replicas_one_refreshes() {
    let session = Session::new().await;
    let world = &session.world;
    let other = World::over(settings(), world.store.clone(), world.clock.clone());
    for fake in [&world.git, &other.git] {
        fake.set(|script| script.refresh_takes = Duration::from_secs(2));
    }
    session.pass(3600);
    let mut asking = Vec::new();
    for at in 0..200 {
        let server = if at % 2 == 0 { &world.server } else { &other.server };
        let tokens = server.tokens(session.id);
        asking.push(tokio::spawn(async move { access(&*tokens, "git").await }));
    }
    for one in asking {
        assert_eq!(one.await.unwrap().unwrap(), "git-access-canary-1");
    }
    let refreshes = session.refreshes() + other.git.refreshes.load(Ordering::SeqCst);
    assert_eq!(refreshes, 1);
}

#[tokio::test(start_paused = true)]
async fn of_many_whose_token_is_not_taken_on_two_replicas_one_renews_it() {
    let session = Session::new().await;
    let world = &session.world;
    let replica = World::over(settings(), world.store.clone(), world.clock.clone());
    for fake in [&world.git, &replica.git] {
        fake.set(|script| script.refresh_takes = Duration::from_secs(2));
    }
    let first = "git-access-canary-0";
    let (here, there) = (session.tokens.clone(), replica.server.tokens(session.id));
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
async fn a_backend_that_takes_no_token_at_all_has_the_provider_asked_now_and_then_only() {
    let session = Session::new().await;
    for (seconds, refreshes) in [(0, 1), (29, 1), (1, 2), (1, 2)] {
        session.pass(seconds);
        let shown = session.git().await.unwrap();
        let asked = other(&*session.tokens, &shown).await;
        assert_eq!(session.refreshes(), refreshes, "{asked:?}");
        assert_eq!(session.world.server.sizes().left_alone, 1);
        assert!(session.git().await.is_ok());
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_renewed_stays_and_a_dead_grant_goes() {
    let session = Session::new().await;
    let first = session.git().await.unwrap();
    session.world.git.set(|script| script.refresh = Some(temporary()));
    assert_eq!(other(&*session.tokens, &first).await, Err(UpstreamError::Unavailable));
    assert_eq!(session.git().await.unwrap(), first, "good for whoever takes it");
    session.pass(40);
    session.world.git.set(|script| script.refresh = Some(RefreshError::GrantEnded));
    assert_eq!(other(&*session.tokens, &first).await, Err(UpstreamError::NotLinked));
    assert_eq!(session.git().await, Err(UpstreamError::NotLinked));
    assert!(access(&*session.tokens, "corp").await.is_ok());
    // The fake returns the same ID token each time.
    let id = session.tokens.token("corp", UpstreamKind::Id).await.unwrap().value;
    let asked = session.tokens.refresh("corp", UpstreamKind::Id, &id).await;
    assert_eq!(asked.err(), Some(UpstreamError::Unavailable));

    let world = World::new();
    world.git.set(|script| script.refresh_token = None);
    let got = world.tokens(&world.client().await).await;
    let id = world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap().session;
    let tokens = world.server.tokens(id);
    let first = access(&*tokens, "git").await.unwrap();
    assert_eq!(other(&*tokens, &first).await, Err(UpstreamError::Unavailable));
    assert_eq!(access(&*tokens, "git").await.unwrap(), first);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_goes_on_when_nobody_waits_for_it() {
    let session = Session::new().await;
    session.world.git.set(|script| script.refresh_takes = Duration::from_secs(2));
    session.pass(3600);
    let asked = tokio::time::timeout(Duration::from_secs(1), session.git()).await;
    assert!(asked.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(session.git().await.unwrap(), "git-access-canary-1");
    assert_eq!(session.refreshes(), 1);
}

#[tokio::test]
async fn a_dead_grant_concerns_its_own_provider_alone() {
    let session = Session::new().await;
    for fault in [RefreshError::GrantEnded, RefreshError::SubjectChanged] {
        session.world.git.set(|script| script.refresh = Some(fault));
        session.pass(3600);
        assert_eq!(session.git().await, Err(UpstreamError::NotLinked));
    }
    assert_eq!(session.refreshes(), 1, "a row that is gone is not refreshed");
    assert!(access(&*session.tokens, "corp").await.is_ok());
    let kept = session.world.store.session(&session.id).await.unwrap().unwrap();
    assert_eq!(kept.rows.len(), 1);
}

#[tokio::test]
async fn a_provider_that_is_away_is_left_alone_for_longer_each_time_and_nothing_is_lost() {
    let session = Session::new().await;
    session.world.git.set(|script| script.refresh = Some(temporary()));
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
    session.world.git.set(|script| script.refresh = None);
    session.pass(31);
    assert!(session.git().await.unwrap().starts_with("git-access-canary-"));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_never_answers_is_given_up() {
    let session = Session::new().await;
    session.world.git.set(|script| script.refresh_takes = Duration::from_secs(3600));
    session.pass(3600);
    assert_eq!(session.git().await, Err(UpstreamError::Unavailable));
}

#[tokio::test]
async fn a_token_without_a_refresh_token_is_good_until_it_expires() {
    let world = World::new();
    world.git.set(|script| script.refresh_token = None);
    let client = world.client().await;
    let got = world.tokens(&client).await;
    let id = world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap().session;
    let tokens = world.server.tokens(id);
    world.clock.advance(Duration::from_secs(3599));
    assert!(access(&*tokens, "git").await.is_ok());
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(access(&*tokens, "git").await, Err(UpstreamError::NotLinked));
    // A token without an expiry stays.
    world.git.set(|script| script.expires_in = None);
    let got = world.tokens(&client).await;
    let id = world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap().session;
    world.clock.advance(Duration::from_secs(100));
    assert!(access(&*world.server.tokens(id), "git").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_rotated_and_nobody_could_keep_is_not_tried_again() {
    let session = Session::new().await;
    let world = &session.world;
    // The replica dies between the provider's response and the store.
    let store = Watched::new(world.store.clone(), 3, false);
    let other = World::over(settings(), store, world.clock.clone());
    session.pass(3600);
    let tokens = other.server.tokens(session.id);
    assert_eq!(access(&*tokens, "git").await, Err(UpstreamError::NotLinked));
    assert_eq!(other.git.refreshes.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_store_that_is_away_is_worth_another_try() {
    let session = Session::new().await;
    let world = &session.world;
    let other =
        World::over(settings(), Watched::new(world.store.clone(), 1, false), world.clock.clone());
    let tokens = other.server.tokens(session.id);
    assert_eq!(access(&*tokens, "git").await, Err(UpstreamError::Unavailable));
    // A row encrypted with another secret counts as missing.
    let mut foreign = settings();
    foreign.hmac = crate::HmacRing::new(&[vec![8; 32].into()]).unwrap();
    let other = World::over(foreign, world.store.clone(), world.clock.clone());
    assert_eq!(
        access(&*other.server.tokens(session.id), "git").await,
        Err(UpstreamError::NotLinked)
    );
}

#[tokio::test]
async fn tokens_of_a_session_that_ended_are_gone() {
    let session = Session::new().await;
    session.git().await.unwrap();
    session.world.server.end_session(session.id).await.unwrap();
    assert_eq!(session.git().await, Err(UpstreamError::NotLinked));
    let provider = ProviderName::new("git").unwrap();
    assert!(
        !session.world.store.remove_upstream_token(&session.id, &provider, None).await.unwrap()
    );
}
