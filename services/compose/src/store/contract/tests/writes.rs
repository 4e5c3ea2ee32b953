//! Writes: all or none, and visible to each replica.

use std::time::Duration;

use serde_json::json;

use super::fixtures::{alice, completed, finished, id, kept, of, started, until_released};
use crate::store::contract::TestStore;
use crate::{
    Change, IterationResult, RunResult, RunStatus, StepStatus, StoreError, StoreLimits, Timestamp,
};

pub async fn replica_reads_each_write(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let lease = store.create(kept("a"), vec![started(0), started(2)]).await.unwrap();
    let output = IterationResult::Completed(json!({"n": 1}).into());
    let writes = [
        vec![finished(0, json!({"x": "é\"\u{0}"})), started(1)],
        vec![Change::AttemptFailed { step: 1, iteration: None }],
        vec![started(1), Change::RemainingSkipped],
        vec![Change::IterationStarted { step: 2, iteration: 4 }],
        vec![Change::IterationFinished { step: 2, iteration: 4, result: output.clone() }],
    ];
    let mut expected = store.read(&alice(), &id("a")).await.unwrap();
    for changes in writes {
        expected.apply(changes.clone());
        store.commit(&lease, changes).await.unwrap();
        assert_eq!(replica.read(&alice(), &id("a")).await.unwrap(), expected);
    }
    let record = replica.read(&alice(), &id("a")).await.unwrap();
    assert_eq!(record.steps[&1].attempts, 2);
    assert_eq!(record.steps[&2].iterations[&4].result, Some(output));
    assert_eq!(*record.arguments, json!({"city": "Oslo"}));
    store.release(&lease);
    until_released(&*replica, "a").await;
    let (_, acquired) = replica.acquire(&alice(), &id("a")).await.unwrap();
    assert_eq!(acquired, record);
}

pub async fn rejected_write_changes_nothing(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let lease = store.create(kept("a"), Vec::new()).await.unwrap();
    let before = replica.read(&alice(), &id("a")).await.unwrap();
    let changes = vec![started(0), super::fixtures::round_consumed(0)];
    assert_eq!(store.commit(&lease, changes).await, Err(StoreError::RoundConsumed));
    assert_eq!(replica.read(&alice(), &id("a")).await.unwrap(), before);
}

pub async fn finished_run_takes_no_writes(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let lease = store.create(kept("a"), vec![started(0)]).await.unwrap();
    store.commit(&lease, vec![completed()]).await.unwrap();
    assert_eq!(store.commit(&lease, vec![started(1)]).await, Err(StoreError::Finished));
    assert_eq!(replica.acquire(&alice(), &id("a")).await.unwrap_err(), StoreError::Finished);
    let record = replica.read(&alice(), &id("a")).await.unwrap();
    assert_eq!(record.status, RunStatus::Completed);
    assert_eq!(record.result, Some(RunResult::Completed(json!({"done": true}).into())));
}

pub async fn result_is_kept_on_request_only(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    for (run, expected) in [
        (of(alice(), "a"), RunResult::NotKept),
        (kept("b"), RunResult::Completed(json!({"done": true}).into())),
    ] {
        let id = run.id.clone();
        let lease = store.create(run, Vec::new()).await.unwrap();
        store.commit(&lease, vec![completed()]).await.unwrap();
        assert_eq!(replica.read(&alice(), &id).await.unwrap().result, Some(expected));
    }
}

pub async fn ended_run_keeps_course_without_values(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let lease = store.create(of(alice(), "a"), vec![started(0), started(1)]).await.unwrap();
    store.commit(&lease, vec![finished(0, json!({"secret": 1}))]).await.unwrap();
    let output = IterationResult::Completed(json!("secret").into());
    let iterated = Change::IterationFinished { step: 1, iteration: 0, result: output };
    store.commit(&lease, vec![iterated, completed()]).await.unwrap();
    let record = replica.read(&alice(), &id("a")).await.unwrap();
    let times = (record.started_at, record.ended_at);
    assert_eq!((record.status, times), (RunStatus::Completed, (Timestamp(5), Some(Timestamp(8)))));
    let steps: Vec<_> = record
        .steps
        .values()
        .map(|step| {
            let status = step.result.as_ref().map(|result| result.status);
            (status, step.started_at, step.ended_at)
        })
        .collect();
    let [done, cancelled] = [StepStatus::Completed, StepStatus::Cancelled].map(Some);
    let started_at = Some(Timestamp(6));
    let expected =
        [(done, started_at, Some(Timestamp(7))), (cancelled, started_at, Some(Timestamp(8)))];
    assert_eq!(steps, expected);
    assert_eq!(record.steps[&1].iterations.len(), 1);
    let text = format!("{record:?}");
    assert!(!text.contains("secret") && !text.contains("Oslo"), "{text}");
}

pub async fn identifier_is_used_once(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    store.create(kept("a"), Vec::new()).await.unwrap();
    let error = replica.create(kept("a"), Vec::new()).await.unwrap_err();
    assert_eq!(error, StoreError::Leased);
}

pub async fn waits_for_write_of_replica(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let lease = store.create(kept("a"), Vec::new()).await.unwrap();
    let version = replica.read(&alice(), &id("a")).await.unwrap().version;
    let (owner, run) = (alice(), id("a"));
    let wait = async {
        while replica.read(&owner, &run).await.unwrap().version == version {
            replica.wait(&owner, &run, version).await.unwrap();
        }
    };
    let write = async {
        tokio::task::yield_now().await;
        store.commit(&lease, vec![started(0)]).await.unwrap();
    };
    let both = async { tokio::join!(wait, write) };
    tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
    store.commit(&lease, vec![completed()]).await.unwrap();
    // A run that ended has nothing to wait for.
    let done = replica.wait(&owner, &run, u64::MAX);
    tokio::time::timeout(Duration::from_secs(30), done).await.unwrap().unwrap();
}
