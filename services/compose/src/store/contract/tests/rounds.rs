//! Rounds of questions.

use std::time::Duration;

use serde_json::json;

use super::fixtures::{
    alice, answers_kept, finished, id, kept, round_consumed, round_opened, started,
};
use crate::store::contract::TestStore;
use crate::{RunStatus, StoreError, StoreLimits};

pub async fn open_round_gives_lease_back(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let lease = store.create(kept("a"), vec![started(0)]).await.unwrap();
    store.commit(&lease, vec![round_opened(0)]).await.unwrap();
    let record = replica.read(&alice(), &id("a")).await.unwrap();
    assert_eq!((record.status, record.open_round()), (RunStatus::InputRequired, Some(0)));
    let (lease, _) = replica.acquire(&alice(), &id("a")).await.unwrap();
    assert_eq!(lease.epoch, 2);
}

pub async fn round_is_consumed_once(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let lease = store.create(kept("a"), vec![started(0)]).await.unwrap();
    store.commit(&lease, vec![round_opened(0)]).await.unwrap();
    let (lease, _) = replica.acquire(&alice(), &id("a")).await.unwrap();
    for (round, expected) in
        [(1, Err(StoreError::RoundConsumed)), (0, Ok(())), (0, Err(StoreError::RoundConsumed))]
    {
        assert_eq!(replica.commit(&lease, vec![round_consumed(round)]).await, expected);
    }
    replica.commit(&lease, vec![round_opened(0)]).await.unwrap();
    let record = store.read(&alice(), &id("a")).await.unwrap();
    assert_eq!(record.rounds.len(), 2);
    assert_eq!((record.rounds[0].consumed_by, record.open_round()), (Some([1; 32]), Some(1)));
}

pub async fn write_with_consumed_round_changes_nothing(
    fresh: impl AsyncFn(StoreLimits) -> TestStore,
) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let lease = store.create(kept("a"), vec![started(0)]).await.unwrap();
    store.commit(&lease, vec![round_opened(0)]).await.unwrap();
    let (lease, _) = store.acquire(&alice(), &id("a")).await.unwrap();
    let changes = || vec![finished(0, json!({})), started(1), round_consumed(0)];
    store.commit(&lease, changes()).await.unwrap();
    let before = replica.read(&alice(), &id("a")).await.unwrap();
    assert_eq!(before.steps.len(), 2);
    assert_eq!(store.commit(&lease, changes()).await, Err(StoreError::RoundConsumed));
    assert_eq!(replica.read(&alice(), &id("a")).await.unwrap(), before);
}

pub async fn kept_answers_need_open_round(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, clock } = fresh(StoreLimits::default()).await;
    let lease = store.create(kept("a"), vec![started(0)]).await.unwrap();
    store.commit(&lease, vec![round_opened(0)]).await.unwrap();
    let (lease, _) = store.acquire(&alice(), &id("a")).await.unwrap();
    assert_eq!(
        store.commit(&lease, vec![answers_kept(1, 0)]).await,
        Err(StoreError::RoundConsumed)
    );
    clock.advance(Duration::from_secs(2));
    store.commit(&lease, vec![answers_kept(0, 0)]).await.unwrap();
    let record = replica.read(&alice(), &id("a")).await.unwrap();
    assert_eq!((record.status, record.open_round()), (RunStatus::InputRequired, Some(0)));
    assert_eq!(record.updated_at, clock.now().into());
    let round = &record.rounds[0];
    assert_eq!((round.answers.len(), round.questions[0].answered_by), (1, Some([2; 32])));
    store.commit(&lease, vec![round_consumed(0)]).await.unwrap();
    let round = &replica.read(&alice(), &id("a")).await.unwrap().rounds[0];
    assert_eq!((round.answers.len(), round.questions[0].answered_by), (0, Some([2; 32])));
    assert_eq!(
        store.commit(&lease, vec![answers_kept(0, 0)]).await,
        Err(StoreError::RoundConsumed)
    );
}
