//! Limits of the results that are kept after the end of a run.

use std::sync::Arc;

use serde_json::json;

use super::fixtures::{alice, finished, id, of};
use crate::store::contract::TestStore;
use crate::{
    Change, RunError, RunErrorKind, RunOwner, RunResult, RunStatus, StoreLimits, Timestamp,
    WorkflowStore,
};

fn limits() -> StoreLimits {
    StoreLimits { max_bytes_per_owner: 100_000, max_bytes: 150_000, ..StoreLimits::default() }
}

/// Change that ends a run with a result of `size` bytes.
fn completed(size: usize) -> Change {
    let result = RunResult::Completed(Arc::new(json!({"x": "x".repeat(size)})));
    Change::RunFinished { status: RunStatus::Completed, at: Timestamp(8), result }
}

/// Runs that start together and end one after the other, each with a result of `size` bytes.
async fn end_together(store: &dyn WorkflowStore, owner: &RunOwner, runs: &[(&str, usize)]) {
    let mut leases = Vec::new();
    for (name, size) in runs {
        let run = of(owner.clone(), name).keeping_result();
        leases.push((store.create(run, Vec::new()).await.unwrap(), *size));
    }
    for (lease, size) in leases {
        store.commit(&lease, vec![finished(0, json!({})), completed(size)]).await.unwrap();
    }
}

async fn is_kept(store: &dyn WorkflowStore, owner: &RunOwner, name: &str) -> bool {
    let record = store.read(owner, &id(name)).await.unwrap();
    assert_eq!(record.status, RunStatus::Completed);
    let is_dropped = record.result == Some(RunResult::NotKept);
    assert!(is_dropped || matches!(record.result, Some(RunResult::Completed(_))));
    !is_dropped
}

pub async fn oldest_results_of_owner_are_dropped(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(limits()).await;
    let runs = [("a", 40_000), ("b", 40_000), ("c", 40_000)];
    end_together(&*store, &alice(), &runs).await;
    for (name, kept) in [("a", false), ("b", true), ("c", true)] {
        assert_eq!(is_kept(&*replica, &alice(), name).await, kept, "{name}");
    }
    assert!(replica.counts().await.unwrap().bytes <= 100_000);
}

pub async fn result_over_limit_drops_no_other(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(limits()).await;
    end_together(&*store, &alice(), &[("small", 1_000), ("large", 100_000)]).await;
    assert!(is_kept(&*replica, &alice(), "small").await);
    assert!(!is_kept(&*replica, &alice(), "large").await);
}

pub async fn largest_owner_loses_results_first(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let TestStore { store, replica, .. } = fresh(limits()).await;
    let (bob, carol) = (RunOwner::new("bob"), RunOwner::new("carol"));
    end_together(&*store, &bob, &[("b", 20_000)]).await;
    end_together(&*store, &alice(), &[("a1", 40_000), ("a2", 40_000)]).await;
    end_together(&*store, &carol, &[("c", 60_000)]).await;
    assert!(is_kept(&*replica, &bob, "b").await);
    assert!(is_kept(&*replica, &carol, "c").await);
    assert!(!is_kept(&*replica, &alice(), "a1").await);
    assert!(is_kept(&*replica, &alice(), "a2").await);
    assert!(replica.counts().await.unwrap().bytes <= 150_000);
}

pub async fn error_of_run_stays_over_limit(fresh: impl AsyncFn(StoreLimits) -> TestStore) {
    let limits = StoreLimits { max_bytes_per_owner: 2_000, ..StoreLimits::default() };
    let TestStore { store, replica, .. } = fresh(limits).await;
    let run = || of(alice(), "a").keeping_result();
    let lease = store.create(run(), Vec::new()).await.unwrap();
    let steps = (0..20).map(|step| finished(step, json!({})));
    let result = RunResult::Failed(RunError::new(RunErrorKind::TimedOut, "late"));
    let end = Change::RunFinished { status: RunStatus::TimedOut, at: Timestamp(8), result };
    store.commit(&lease, steps.chain([end.clone()]).collect()).await.unwrap();
    let Change::RunFinished { result, .. } = end else { return };
    assert_eq!(replica.read(&alice(), &id("a")).await.unwrap().result, Some(result));
}
