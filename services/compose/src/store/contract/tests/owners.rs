//! Owners: each sees and cancels own runs only.

use super::fixtures::{alice, completed, id, kept, of, round_opened, started, until_released};
use crate::store::contract::TestStore;
use crate::{RunErrorKind, RunOwner, RunResult, RunStatus, StoreError, StoreLimits, Timestamp};

pub async fn run_is_absent_for_others(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let lease = store.create(kept("a"), Vec::new()).await.unwrap();
    store.release(&lease);
    until_released(&*replica, "a").await;
    let mallory = RunOwner::new("mallory");
    assert_eq!(replica.read(&mallory, &id("a")).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(replica.acquire(&mallory, &id("a")).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(replica.cancel(&mallory, &id("a")).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(replica.wait(&mallory, &id("a"), 0).await, Err(StoreError::NotFound));
    assert_eq!(replica.list(&mallory, 100).await.unwrap(), []);
    let record = store.read(&alice(), &id("a")).await.unwrap();
    assert_eq!(record.status, RunStatus::Interrupted);
}

pub async fn owner_lists_newest_first(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    for (name, at) in [("old", 1), ("new", 9), ("middle", 5)] {
        let mut run = kept(name);
        run.started_at = Timestamp(at);
        let lease = store.create(run, vec![started(0)]).await.unwrap();
        match name {
            "old" => store.commit(&lease, vec![completed()]).await.unwrap(),
            "middle" => store.commit(&lease, vec![round_opened(0)]).await.unwrap(),
            _ => {}
        }
    }
    store.create(of(RunOwner::new("bob"), "other"), Vec::new()).await.unwrap();
    let runs = replica.list(&alice(), 100).await.unwrap();
    let found: Vec<_> = runs.iter().map(|run| (run.id.as_str(), run.status)).collect();
    let expected = [
        ("new", RunStatus::Running),
        ("middle", RunStatus::InputRequired),
        ("old", RunStatus::Completed),
    ];
    assert_eq!(found, expected);
    assert_eq!(runs[2].ended_at, Some(Timestamp(8)));
    let newest = replica.list(&alice(), 2).await.unwrap();
    assert_eq!(newest, runs[..2]);
}

pub async fn cancelled_run_stops_its_holder(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let lease = store.create(of(alice(), "a"), Vec::new()).await.unwrap();
    assert_eq!(replica.cancel(&alice(), &id("a")).await, Ok(RunStatus::Cancelled));
    assert_eq!(store.commit(&lease, vec![started(0)]).await, Err(StoreError::Superseded));
    assert_eq!(store.renew(&lease).await, Err(StoreError::Superseded));
    let record = store.read(&alice(), &id("a")).await.unwrap();
    assert_eq!(record.status, RunStatus::Cancelled);
    let Some(RunResult::Failed(error)) = record.result else { unreachable!("it failed") };
    assert_eq!(error.kind(), RunErrorKind::Cancelled);
}

pub async fn cancel_keeps_earlier_result(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let lease = store.create(kept("a"), Vec::new()).await.unwrap();
    store.commit(&lease, vec![completed()]).await.unwrap();
    assert_eq!(replica.cancel(&alice(), &id("a")).await, Ok(RunStatus::Completed));
}
