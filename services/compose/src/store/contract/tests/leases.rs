//! Leases: one process at a time writes to a run.

use std::time::Duration;

use super::fixtures::{alice, id, kept, started, until_released};
use crate::store::contract::TestStore;
use crate::{RunStatus, StoreError, StoreLimits};

fn limits() -> StoreLimits {
    StoreLimits { lease: Duration::from_secs(10), ..StoreLimits::default() }
}

pub async fn new_run_is_leased_to_its_creator(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(limits()).await;
    let lease = store.create(kept("a"), vec![started(0)]).await.unwrap();
    assert_eq!((&lease.run, lease.epoch), (&id("a"), 1));
    let error = replica.acquire(&alice(), &id("a")).await.unwrap_err();
    assert_eq!(error, StoreError::Leased);
    let record = replica.read(&alice(), &id("a")).await.unwrap();
    assert_eq!((record.status, record.steps[&0].is_in_flight), (RunStatus::Running, true));
    assert_eq!(store.lease_duration(), Duration::from_secs(10));
}

pub async fn lease_ends_unless_renewed(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, clock } = fresh(limits()).await;
    let lease = store.create(kept("a"), Vec::new()).await.unwrap();
    clock.advance(Duration::from_secs(9));
    store.renew(&lease).await.unwrap();
    clock.advance(Duration::from_secs(9));
    assert_eq!(replica.acquire(&alice(), &id("a")).await.unwrap_err(), StoreError::Leased);
    clock.advance(Duration::from_secs(1));
    let record = replica.read(&alice(), &id("a")).await.unwrap();
    assert_eq!(record.status, RunStatus::Interrupted);
    let (taken, _) = replica.acquire(&alice(), &id("a")).await.unwrap();
    assert_eq!(taken.epoch, 2);
}

pub async fn write_extends_lease(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, clock } = fresh(limits()).await;
    let lease = store.create(kept("a"), Vec::new()).await.unwrap();
    clock.advance(Duration::from_secs(9));
    store.commit(&lease, vec![started(0)]).await.unwrap();
    clock.advance(Duration::from_secs(9));
    assert_eq!(replica.acquire(&alice(), &id("a")).await.unwrap_err(), StoreError::Leased);
}

pub async fn later_lease_fences_earlier_one(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, clock } = fresh(limits()).await;
    let first = store.create(kept("a"), Vec::new()).await.unwrap();
    clock.advance(Duration::from_secs(10));
    let (second, _) = replica.acquire(&alice(), &id("a")).await.unwrap();
    assert_eq!(store.commit(&first, vec![started(0)]).await, Err(StoreError::Superseded));
    assert_eq!(store.renew(&first).await, Err(StoreError::Superseded));
    store.release(&first);
    assert_eq!(store.acquire(&alice(), &id("a")).await.unwrap_err(), StoreError::Leased);
    replica.commit(&second, vec![started(1)]).await.unwrap();
    let record = store.read(&alice(), &id("a")).await.unwrap();
    assert_eq!(record.steps.keys().collect::<Vec<_>>(), [&1]);
}

pub async fn released_run_is_interrupted(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(limits()).await;
    let lease = store.create(kept("a"), Vec::new()).await.unwrap();
    store.release(&lease);
    until_released(&*replica, "a").await;
    let record = replica.read(&alice(), &id("a")).await.unwrap();
    assert_eq!(record.status, RunStatus::Interrupted);
    let (_, record) = replica.acquire(&alice(), &id("a")).await.unwrap();
    assert_eq!(record.status, RunStatus::Running);
}

pub async fn concurrent_replicas_get_one_lease(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(limits()).await;
    let lease = store.create(kept("a"), Vec::new()).await.unwrap();
    store.release(&lease);
    until_released(&*replica, "a").await;
    let (owner, run) = (alice(), id("a"));
    let results = tokio::join!(
        store.acquire(&owner, &run),
        replica.acquire(&owner, &run),
        store.acquire(&owner, &run),
    );
    let granted = [results.0, results.1, results.2].into_iter().flatten().count();
    assert_eq!(granted, 1);
}

pub async fn expired_lease_writes_until_taken(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, clock } = fresh(limits()).await;
    let lease = store.create(kept("a"), Vec::new()).await.unwrap();
    clock.advance(Duration::from_mins(1));
    store.commit(&lease, vec![started(0)]).await.unwrap();
    let record = replica.read(&alice(), &id("a")).await.unwrap();
    assert_eq!(record.status, RunStatus::Running);
}
