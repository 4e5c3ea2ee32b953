use std::time::Duration;

use futures_util::{FutureExt, StreamExt};

use super::fixtures::{grant_id, insert_grant, insert_session, now, session};
use crate::contract::TestEnv;
use crate::{Limits, Revocation};

/// Maximum time for a revocation to arrive.
const HEARD: Duration = Duration::from_secs(10);

async fn heard(revocations: &mut (impl StreamExt<Item = Revocation> + Unpin)) -> Revocation {
    tokio::time::timeout(HEARD, revocations.next()).await.unwrap().unwrap()
}

pub async fn stream_starts_with_recent_revocations(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    insert_grant(&*store, 1, &clock).await;
    insert_session(&*store, 2, &clock).await;
    let first = store.revoke(&grant_id(1)).await.unwrap().unwrap();
    clock.advance(Duration::from_secs(1));
    let second = store.end_session(&session(2)).await.unwrap().unwrap();
    let at = now(&clock);
    assert_eq!(second, Revocation { grant: None, session: session(2), at });
    let mut revocations = replica.revocations().await.unwrap();
    // The stream yields all recent revocations before it is pending.
    let mut at_hand = Vec::new();
    while let Some(Some(revocation)) = revocations.next().now_or_never() {
        at_hand.push(revocation);
    }
    assert_eq!(at_hand, [first, second]);
}

pub async fn other_replica_receives_each_revocation(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let TestEnv { store, replica, clock } = fresh(Limits::default()).await;
    let mut revocations = replica.revocations().await.unwrap();
    for number in 1..=50 {
        insert_session(&*store, number, &clock).await;
        store.end_session(&session(number)).await.unwrap().unwrap();
    }
    for number in 1..=50 {
        assert_eq!(heard(&mut revocations).await.session, session(number));
    }
}

pub async fn revocations_outlive_access_tokens(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let limits = Limits::default();
    let TestEnv { store, replica, clock } = fresh(limits.clone()).await;
    for number in 1..=2 {
        insert_session(&*store, number, &clock).await;
        store.end_session(&session(number)).await.unwrap().unwrap();
        clock.advance(limits.revocation_retention / 2);
    }
    let mut revocations = replica.revocations().await.unwrap();
    assert_eq!(heard(&mut revocations).await.session, session(2));
}

/// Evicting a revocation would make its access tokens valid again.
pub async fn revocations_never_evict_each_other(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let limits = Limits { sessions: 2, ..Limits::default() };
    let TestEnv { store, replica, clock } = fresh(limits).await;
    for number in 1..=20 {
        insert_session(&*store, number, &clock).await;
        store.end_session(&session(number)).await.unwrap().unwrap();
    }
    let mut revocations = replica.revocations().await.unwrap();
    let mut told = Vec::new();
    for _ in 1..=20 {
        told.push(heard(&mut revocations).await.session);
    }
    told.sort_by_key(|session| format!("{session:?}"));
    let mut all: Vec<_> = (1..=20).map(session).collect();
    all.sort_by_key(|session| format!("{session:?}"));
    assert_eq!(told, all);
}
