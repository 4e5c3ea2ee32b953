//! Limits in number, size and time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::fixtures::{
    alice, completed, finished, id, kept, of, round_opened, started, until_released,
};
use crate::store::contract::TestStore;
use crate::{Change, IterationResult, ReachedLimit, RunOwner, StoreError, StoreLimits};

pub async fn run_without_lease_expires(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let lifetime = Duration::from_mins(10);
    let TestStore { store, replica, clock } =
        fresh(StoreLimits { lifetime, ..StoreLimits::default() }).await;
    let idle = store.create(kept("idle"), Vec::new()).await.unwrap();
    store.release(&idle);
    until_released(&*replica, "idle").await;
    clock.advance(lifetime - Duration::from_secs(1));
    assert_eq!(replica.list(&alice(), 100).await.unwrap().len(), 1);
    clock.advance(Duration::from_secs(1));
    assert_eq!(replica.read(&alice(), &id("idle")).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(replica.list(&alice(), 100).await.unwrap(), []);
}

pub async fn ended_run_expires(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let (lifetime, ended_lifetime) = (Duration::from_mins(10), Duration::from_hours(1));
    let limits = StoreLimits { lifetime, ended_lifetime, ..StoreLimits::default() };
    let TestStore { store, replica, clock } = fresh(limits).await;
    let ended = store.create(of(alice(), "ended"), Vec::new()).await.unwrap();
    store.commit(&ended, vec![completed()]).await.unwrap();
    clock.advance(ended_lifetime - Duration::from_secs(1));
    assert_eq!(replica.list(&alice(), 100).await.unwrap().len(), 1);
    clock.advance(Duration::from_secs(1));
    assert_eq!(replica.read(&alice(), &id("ended")).await.unwrap_err(), StoreError::NotFound);
    assert_eq!(replica.counts().await.unwrap().runs, 0);
}

pub async fn leased_run_does_not_expire(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let (lease, lifetime) = (Duration::from_secs(10), Duration::from_secs(20));
    let TestStore { store, replica, clock } =
        fresh(StoreLimits { lease, lifetime, ..StoreLimits::default() }).await;
    let lease = store.create(kept("a"), Vec::new()).await.unwrap();
    for _ in 0..10 {
        clock.advance(Duration::from_secs(9));
        store.renew(&lease).await.unwrap();
    }
    assert!(replica.read(&alice(), &id("a")).await.is_ok());
}

pub async fn owner_has_limited_runs(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let limits = StoreLimits { max_runs_per_owner: 2, ..StoreLimits::default() };
    let TestStore { store, .. } = fresh(limits).await;
    for name in ["a", "b"] {
        store.create(kept(name), Vec::new()).await.unwrap();
    }
    let error = store.create(kept("c"), Vec::new()).await.unwrap_err();
    assert_eq!(error, StoreError::Full { limit: ReachedLimit::OwnerRuns });
    let expected =
        "the workflow store is full (runs of this caller): answer or cancel open questions";
    assert_eq!(error.to_string(), expected);
    store.create(of(RunOwner::new("bob"), "d"), Vec::new()).await.unwrap();
}

pub async fn owner_has_half_of_free_runs(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let limits = StoreLimits { max_runs_per_owner: 10, max_runs: 16, ..StoreLimits::default() };
    let TestStore { store, replica, .. } = fresh(limits).await;
    // Half of what the others leave: 16, 8, 4 and 2 runs.
    for (owner, share) in [("alice", 8), ("bob", 4), ("carol", 2), ("dave", 1)] {
        let owner = RunOwner::new(owner);
        for number in 0..share {
            let name = format!("{owner:?} {number}");
            store.create(of(owner.clone(), &name), Vec::new()).await.unwrap();
        }
        let error = store.create(of(owner.clone(), "more"), Vec::new()).await.unwrap_err();
        assert_eq!(error, StoreError::Full { limit: ReachedLimit::Runs });
    }
    assert_eq!(replica.counts().await.unwrap().runs, 15);
}

pub async fn owner_has_half_of_free_bytes(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let limits = StoreLimits { max_bytes: 200_000, ..StoreLimits::default() };
    let TestStore { store, .. } = fresh(limits).await;
    let large = |bytes: usize| vec![finished(0, json!({"x": "x".repeat(bytes)}))];
    let of_alice = store.create(kept("a"), Vec::new()).await.unwrap();
    let error = store.commit(&of_alice, large(100_000)).await.unwrap_err();
    assert_eq!(error, StoreError::RunTooLarge { limit: 100_000 });
    store.commit(&of_alice, large(80_000)).await.unwrap();
    // Bob has half of 120,000.
    let of_bob = store.create(of(RunOwner::new("bob"), "b"), Vec::new()).await.unwrap();
    let error = store.commit(&of_bob, large(60_000)).await.unwrap_err();
    assert_eq!(error, StoreError::Full { limit: ReachedLimit::Bytes });
    store.commit(&of_bob, large(50_000)).await.unwrap();
    // Alice has more than half of what Bob leaves: she keeps it, and may write what takes no memory.
    let error = store.commit(&of_alice, vec![started(1)]).await.unwrap_err();
    assert_eq!(error, StoreError::Full { limit: ReachedLimit::Bytes });
    store.commit(&of_alice, vec![Change::OutputDropped { step: 0 }]).await.unwrap();
    store.commit(&of_alice, vec![started(1)]).await.unwrap();
}

pub async fn ended_runs_of_others_take_no_share(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let limits = StoreLimits { max_runs: 4, ..StoreLimits::default() };
    let TestStore { store, replica, .. } = fresh(limits).await;
    for number in 0..4 {
        let run = of(RunOwner::new("bob"), &number.to_string());
        let lease = store.create(run, Vec::new()).await.unwrap();
        store.commit(&lease, vec![completed()]).await.unwrap();
    }
    for name in ["a", "b"] {
        store.create(kept(name), Vec::new()).await.unwrap();
    }
    let error = store.create(kept("c"), Vec::new()).await.unwrap_err();
    assert_eq!(error, StoreError::Full { limit: ReachedLimit::Runs });
    assert_eq!(replica.list(&RunOwner::new("bob"), 100).await.unwrap().len(), 2);
}

pub async fn ended_runs_are_evicted_for_new_ones(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let limits = StoreLimits { max_runs_per_owner: 2, ..StoreLimits::default() };
    let TestStore { store, replica, clock } = fresh(limits).await;
    for name in ["a", "b", "c"] {
        let lease = store.create(kept(name), Vec::new()).await.unwrap();
        store.commit(&lease, vec![completed()]).await.unwrap();
        clock.advance(Duration::from_secs(1));
    }
    let mut names: Vec<_> =
        replica.list(&alice(), 100).await.unwrap().into_iter().map(|run| run.id).collect();
    names.sort();
    assert_eq!(names, [id("b"), id("c")]);
}

pub async fn last_ended_runs_of_all_remain(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let limits = StoreLimits { max_runs: 4, ..StoreLimits::default() };
    let TestStore { store, replica, .. } = fresh(limits).await;
    // The run that started first ends last.
    let first = store.create(kept("first"), Vec::new()).await.unwrap();
    for name in ["a", "b"] {
        let lease = store.create(kept(name), Vec::new()).await.unwrap();
        store.commit(&lease, vec![completed()]).await.unwrap();
    }
    store.commit(&first, vec![completed()]).await.unwrap();
    for (owner, name) in [("bob", "d"), ("bob", "e"), ("carol", "f")] {
        store.create(of(RunOwner::new(owner), name), Vec::new()).await.unwrap();
    }
    let runs = replica.list(&alice(), 100).await.unwrap();
    assert_eq!(runs.into_iter().map(|run| run.id).collect::<Vec<_>>(), [id("first")]);
}

pub async fn bytes_are_limited(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let limits = StoreLimits { max_bytes_per_owner: 100_000, ..StoreLimits::default() };
    let TestStore { store, replica, .. } = fresh(limits).await;
    let lease = store.create(kept("a"), vec![started(0)]).await.unwrap();
    let large = json!({"x": "x".repeat(100_000)});
    let error = store.commit(&lease, vec![finished(0, large)]).await.unwrap_err();
    assert_eq!(error, StoreError::RunTooLarge { limit: 100_000 });
    let half = || json!({"x": "x".repeat(60_000)});
    store.commit(&lease, vec![finished(0, half())]).await.unwrap();
    let other = store.create(kept("b"), Vec::new()).await.unwrap();
    let before = replica.read(&alice(), &id("b")).await.unwrap();
    let error = store.commit(&other, vec![finished(0, half())]).await.unwrap_err();
    assert_eq!(error, StoreError::Full { limit: ReachedLimit::OwnerBytes });
    assert_eq!(replica.read(&alice(), &id("b")).await.unwrap(), before);
}

pub async fn output_that_is_dropped_frees_its_bytes(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let limits = StoreLimits { max_bytes_per_owner: 20_000, ..StoreLimits::default() };
    let TestStore { store, replica, .. } = fresh(limits).await;
    let lease = store.create(kept("a"), Vec::new()).await.unwrap();
    for step in 0..20 {
        let output = json!({"x": "x".repeat(5_000)});
        let mut changes = vec![finished(step, output)];
        changes.extend(step.checked_sub(1).map(|step| Change::OutputDropped { step }));
        store.commit(&lease, changes).await.unwrap();
    }
    let record = replica.read(&alice(), &id("a")).await.unwrap();
    let outputs: Vec<_> = record.steps.values().map(|step| step.result.clone().unwrap()).collect();
    assert!(outputs[..19].iter().all(|result| result.output.is_null()));
    assert_eq!(outputs[19].output["x"].as_str().map(str::len), Some(5_000));
    assert!(replica.counts().await.unwrap().bytes >= record.size());
}

pub async fn iterations_are_not_counted_twice(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let lease = store.create(kept("a"), vec![started(0)]).await.unwrap();
    let output = json!({"x": "x".repeat(5_000)});
    for iteration in 0..3 {
        let result = IterationResult::Completed(Arc::new(output.clone()));
        let change = Change::IterationFinished { step: 0, iteration, result };
        store.commit(&lease, vec![change]).await.unwrap();
    }
    store.commit(&lease, vec![finished(0, json!([output, output, output]))]).await.unwrap();
    let bytes = replica.counts().await.unwrap().bytes;
    let size = replica.read(&alice(), &id("a")).await.unwrap().size();
    assert!((size..size + 1_000).contains(&bytes), "{bytes} of {size}");
}

pub async fn end_of_run_is_never_refused(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let limits = StoreLimits { max_bytes_per_owner: 2_000, ..StoreLimits::default() };
    let TestStore { store, replica, .. } = fresh(limits).await;
    let lease = store.create(kept("a"), Vec::new()).await.unwrap();
    let last = finished(0, json!({"x": "x".repeat(2_000)}));
    store.commit(&lease, vec![last, completed()]).await.unwrap();
    assert!(replica.read(&alice(), &id("a")).await.unwrap().is_finished());
}

pub async fn counts_runs_and_bytes(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let before = replica.counts().await.unwrap();
    assert_eq!((before.runs, before.active, before.suspended, before.bytes), (0, 0, 0, 0));
    let ended = store.create(kept("ended"), Vec::new()).await.unwrap();
    let active = store.create(kept("active"), Vec::new()).await.unwrap();
    store.commit(&ended, vec![completed()]).await.unwrap();
    let small = replica.counts().await.unwrap();
    assert_eq!((small.runs, small.active, small.suspended), (2, 1, 0));
    let output = json!({"x": "x".repeat(5_000)});
    store.commit(&active, vec![finished(0, output)]).await.unwrap();
    let large = replica.counts().await.unwrap();
    assert!(large.bytes >= small.bytes + 5_000, "{large:?}");
    store.commit(&active, vec![started(1), round_opened(1)]).await.unwrap();
    assert_eq!(replica.counts().await.unwrap().suspended, 1);
    let (active, _) = store.acquire(&alice(), &id("active")).await.unwrap();
    store.commit(&active, vec![completed()]).await.unwrap();
    let after = replica.counts().await.unwrap();
    assert_eq!((after.runs, after.active, after.suspended), (2, 0, 0));
    assert!(after.bytes < large.bytes - 4_000, "{after:?}");
}
