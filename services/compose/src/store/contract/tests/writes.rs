//! Writes: all or none, and visible to each replica.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use super::fixtures::{alice, completed, finished, id, kept, of, started, until_released};
use crate::store::contract::TestStore;
use crate::{
    Change, IterationResult, ReachedLimit, RunResult, RunStatus, StepStatus, StoreError,
    StoreLimits, Timestamp,
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

pub async fn concurrent_writes_are_all_made(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(StoreLimits::default()).await;
    let lease = store.create(kept("a"), vec![started(0)]).await.unwrap();
    let writes = (0..100).map(|iteration| {
        let start = Change::IterationStarted { step: 0, iteration };
        store.commit(&lease, vec![start])
    });
    join_all(writes).await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    let record = replica.read(&alice(), &id("a")).await.unwrap();
    assert_eq!((record.version, record.steps[&0].iterations.len()), (101, 100));
}

pub async fn concurrent_write_is_rejected_alone(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let limits = StoreLimits { max_bytes_per_owner: 100_000, ..StoreLimits::default() };
    let TestStore { store, replica, .. } = fresh(limits).await;
    let output = || json!({"x": "x".repeat(60_000)});
    let other = store.create(kept("other"), Vec::new()).await.unwrap();
    store.commit(&other, vec![finished(0, output())]).await.unwrap();
    let lease = store.create(kept("a"), Vec::new()).await.unwrap();
    let written = tokio::join!(
        store.commit(&lease, vec![started(0)]),
        store.commit(&lease, vec![started(1)]),
        store.commit(&lease, vec![super::fixtures::round_consumed(0)]),
        store.commit(&lease, vec![finished(0, output())]),
        store.commit(&lease, vec![started(2)]),
    );
    let full = Err(StoreError::Full { limit: ReachedLimit::OwnerBytes });
    let expected = (Ok(()), Ok(()), Err(StoreError::RoundConsumed), full, Ok(()));
    assert_eq!(written, expected);
    store.commit(&lease, vec![started(3)]).await.unwrap();
    let record = replica.read(&alice(), &id("a")).await.unwrap();
    assert_eq!((record.version, record.steps.len()), (5, 4));
    assert!(record.steps.values().all(|step| step.attempts == 1 && step.result.is_none()));
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
