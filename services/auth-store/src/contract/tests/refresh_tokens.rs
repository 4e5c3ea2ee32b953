use std::time::Duration;

use super::fixtures::{
    DAY, HOUR, MINUTE, client, client_id, digest, grant_id, insert_grant, now, run_concurrently,
    session, token,
};
use crate::contract::TestEnv;
use crate::{Grant, Limits, PreviousRefreshToken, RefreshTokens, RotationOutcome, Store};

const SECOND: Duration = Duration::from_secs(1);

async fn rotate(store: &dyn Store, generation: u32) -> RotationOutcome {
    let next = token(generation + 1).digest;
    store.rotate(&grant_id(1), &token(generation), &next).await.unwrap()
}

fn generation(grant: &Grant) -> u32 {
    grant.refresh.as_ref().unwrap().generation
}

pub async fn concurrent_rotations_yield_one_successor(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    insert_grant(&*store, 1, &clock).await;
    let rotations = run_concurrently(500, |number| {
        let store = if number % 2 == 0 { store.clone() } else { replica.clone() };
        async move { rotate(&*store, 0).await }
    });
    let (mut rotated, mut repeated) = (0, 0);
    for rotation in rotations.await {
        match rotation {
            RotationOutcome::Rotated(grant) if generation(&grant) == 1 => rotated += 1,
            RotationOutcome::Repeated(grant) if generation(&grant) == 1 => repeated += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((rotated, repeated), (1, 499));
    assert!(store.session(&session(1)).await.unwrap().is_some());
    assert!(matches!(rotate(&*store, 1).await, RotationOutcome::Rotated(_)));
}

pub async fn rotation_can_be_repeated_within_grace(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let before = insert_grant(&*store, 1, &clock).await;
    clock.advance(HOUR);
    let RotationOutcome::Rotated(grant) = rotate(&*store, 0).await else { panic!() };
    let refresh = RefreshTokens {
        idle: DAY * 7,
        idle_end: now(&clock) + DAY * 7,
        generation: 1,
        current: digest("token 1"),
        previous: Some(PreviousRefreshToken { digest: digest("token 0"), rotated: now(&clock) }),
    };
    assert_eq!(*grant, Grant { refresh: Some(refresh), ..before });
    clock.advance(SECOND * 10);
    assert_eq!(rotate(&*store, 0).await, RotationOutcome::Repeated(grant.clone()));
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.grant, Some(*grant));
    clock.advance(Duration::from_millis(1));
    assert!(matches!(rotate(&*store, 0).await, RotationOutcome::Replayed(_)));
}

pub async fn old_token_revokes_the_family(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    insert_grant(&*store, 1, &clock).await;
    for past in 0..3 {
        assert!(matches!(rotate(&*store, past).await, RotationOutcome::Rotated(_)));
        clock.advance(HOUR);
    }
    let RotationOutcome::Replayed(revocation) = rotate(&*store, 0).await else { panic!() };
    assert_eq!((revocation.grant, revocation.session), (Some(grant_id(1)), session(1)));
    assert_eq!(rotate(&*store, 3).await, RotationOutcome::NotFound);
    assert_eq!(rotate(&*store, 0).await, RotationOutcome::NotFound);
    assert_eq!(store.session(&session(1)).await, Ok(None));
}

pub async fn token_with_used_successor_revokes_the_family(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    insert_grant(&*store, 1, &clock).await;
    assert!(matches!(rotate(&*store, 0).await, RotationOutcome::Rotated(_)));
    assert!(matches!(rotate(&*store, 1).await, RotationOutcome::Rotated(_)));
    assert!(matches!(rotate(&*store, 0).await, RotationOutcome::Replayed(_)));
}

pub async fn accepts_token_newer_than_the_record(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    insert_grant(&*store, 1, &clock).await;
    let RotationOutcome::Rotated(grant) = rotate(&*store, 3).await else { panic!() };
    assert_eq!(generation(&grant), 4);
    assert!(matches!(rotate(&*store, 3).await, RotationOutcome::Repeated(_)));
    assert!(matches!(rotate(&*store, 4).await, RotationOutcome::Rotated(_)));
    assert!(matches!(rotate(&*store, 0).await, RotationOutcome::Replayed(_)));
}

pub async fn idle_family_expires(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    insert_grant(&*store, 1, &clock).await;
    clock.advance(DAY * 7 - SECOND);
    assert!(matches!(rotate(&*store, 0).await, RotationOutcome::Rotated(_)));
    clock.advance(DAY * 7);
    assert_eq!(rotate(&*store, 1).await, RotationOutcome::NotFound);
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.grant, None);
}

pub async fn family_ends_despite_rotations(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let granted = insert_grant(&*store, 1, &clock).await;
    for week in 0..5 {
        let RotationOutcome::Rotated(grant) = rotate(&*store, week).await else { panic!("{week}") };
        let refresh = grant.refresh.unwrap();
        assert!(refresh.idle_end <= granted.ends);
        clock.advance(DAY * 6);
    }
    assert_eq!(rotate(&*store, 5).await, RotationOutcome::NotFound);
}

pub async fn session_outlives_last_access_token_of_grant(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    let grant = insert_grant(&*store, 1, &clock).await;
    let expires = async || store.session(&session(1)).await.unwrap().unwrap().expires;
    assert_eq!(expires().await, now(&clock) + DAY * 7);
    for use_number in 0..5 {
        clock.advance(DAY * 6 - MINUTE);
        assert!(matches!(rotate(&*store, use_number).await, RotationOutcome::Rotated(_)));
    }
    // The grant lasts for five more minutes, the access token for an hour.
    assert_eq!(grant.ends.since(now(&clock)), MINUTE * 5);
    assert_eq!(expires().await, now(&clock) + HOUR);
}

pub async fn revoked_family_is_gone_at_every_replica(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    insert_grant(&*store, 1, &clock).await;
    let revocation = store.revoke(&grant_id(1)).await.unwrap().unwrap();
    assert_eq!((revocation.grant, revocation.at), (Some(grant_id(1)), now(&clock)));
    assert_eq!(rotate(&*replica, 0).await, RotationOutcome::NotFound);
    assert_eq!(replica.session(&session(1)).await, Ok(None));
    assert_eq!(replica.revoke(&grant_id(1)).await, Ok(None));
}

pub async fn rotation_extends_the_client(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    store.register(&client("client")).await.unwrap();
    store.register(&client("other")).await.unwrap();
    clock.advance(MINUTE * 10);
    insert_grant(&*store, 1, &clock).await;
    clock.advance(DAY * 5);
    assert!(matches!(rotate(&*store, 0).await, RotationOutcome::Rotated(_)));
    clock.advance(DAY * 29);
    let answer = store.grant(&grant_id(1), &client_id("client")).await.unwrap();
    assert_eq!(answer.client, Some(client("client")));
    assert_eq!(store.client(&client_id("other")).await, Ok(None));
    clock.advance(DAY);
    assert_eq!(store.client(&client_id("client")).await, Ok(None));
}
