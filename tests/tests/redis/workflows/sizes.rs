//! Memory of runs in Redis.

use std::sync::Arc;

use serde_json::json;
use vmcp_compose::store::contract::TestStore;
use vmcp_compose::{
    Change, DefinitionHash, Lease, RunId, RunRecord, StepResult, StepStatus, StoreLimits,
    Timestamp, WorkflowStore,
};
use vmcp_tests::counterparts::{Redis, skipped};

use super::fixtures::{key, stores};
use super::runner::owner;
use crate::fixtures::standalone;

async fn create(store: &dyn WorkflowStore) -> Lease {
    let (id, hash) = (RunId::new("a"), DefinitionHash::new([7; 32]));
    let arguments = serde_json::Map::new();
    let run = RunRecord::new(id, owner(), "workflow".into(), hash, arguments, Timestamp(5));
    store.create(run, Vec::new()).await.unwrap()
}

/// Returns the bytes of a run in Redis.
async fn stored_bytes(server: &Redis, store: &dyn WorkflowStore) -> usize {
    let mut bytes = 0;
    for kind in ["run", "changes"] {
        let name = key(store, &format!("{kind}:a"));
        let usage = server.cli(&["MEMORY", "USAGE", &name, "SAMPLES", "0"]).await.unwrap();
        bytes += usage.trim().parse::<usize>().unwrap_or_default();
    }
    bytes
}

#[tokio::test]
async fn outputs_that_are_dropped_leave_redis() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let TestStore { store, replica, .. } =
        stores(&standalone(server.port), StoreLimits::default()).await;
    let lease = create(&*store).await;
    let mut most = 0;
    for step in 0..100 {
        let result = StepResult {
            status: StepStatus::Completed,
            output: Arc::new(json!("x".repeat(50_000))),
            content: Arc::new(json!(null)),
            error: None,
        };
        let mut changes = vec![Change::StepFinished { step, at: Timestamp(7), result }];
        changes.extend(step.checked_sub(1).map(|step| Change::OutputDropped { step }));
        store.commit(&lease, changes).await.unwrap();
        most = most.max(stored_bytes(&server, &*store).await);
    }
    println!("100 outputs of 50,000 bytes, one read at a time: at most {most} bytes in Redis");
    assert!(most < 300_000, "{most}");
    let record = replica.read(&owner(), &RunId::new("a")).await.unwrap();
    assert_eq!((record.version, record.steps.len()), (101, 100));
    assert!(record.steps[&98].result.as_ref().unwrap().output.is_null());
    assert!(!record.steps[&99].result.as_ref().unwrap().output.is_null());
}

#[tokio::test]
async fn many_small_writes_stay_small() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let TestStore { store, replica, .. } =
        stores(&standalone(server.port), StoreLimits::default()).await;
    let lease = create(&*store).await;
    for _ in 0..2_000 {
        let start = Change::StepStarted { step: 0, at: Timestamp(6), question: None };
        store.commit(&lease, vec![start]).await.unwrap();
    }
    let bytes = stored_bytes(&server, &*store).await;
    println!("2,000 writes to one step: {bytes} bytes in Redis");
    assert!(bytes < 64_000, "{bytes}");
    let record = replica.read(&owner(), &RunId::new("a")).await.unwrap();
    assert_eq!((record.version, record.steps[&0].attempts), (2_001, 2_000));
}
