//! Cancelled runs.

use std::time::Duration;

use serde_json::json;
use vmcp_compose::{RunErrorKind, RunStatus};

use crate::support::{TestEnv, error, owner, workflow};

#[tokio::test(start_paused = true)]
async fn dropped_run_cancels_its_calls() {
    let world = TestEnv::new();
    let workflow = workflow(json!([
        {"id": "a", "tool": "w.never"},
        {"id": "b", "type": "forEach", "collection": "[1,2]", "step": {"tool": "w.never"}},
    ]));
    let run = world.run(&workflow, json!({}));
    assert!(tokio::time::timeout(Duration::from_secs(1), run).await.is_err());
    assert_eq!((world.tools.calls().len(), world.tools.running()), (3, 0));
    let runs = world.store.list(&owner(), 100).await.unwrap();
    assert_eq!(runs[0].status, RunStatus::Interrupted, "the lease was given back");
    let events = world.events();
    let last = ["a cancelled 0/2", "b cancelled 0/2", "run interrupted"];
    assert_eq!(events[events.len() - 3..], last);
}

#[tokio::test(start_paused = true)]
async fn owner_cancels_run_of_any_replica() {
    let world = TestEnv::new();
    let workflow = workflow(json!([{"id": "a", "tool": "w.never"}]));
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.store.cancel(&owner(), &world.id).await.unwrap()
    };
    let (outcome, status) = tokio::join!(world.run(&workflow, json!({})), cancel);
    assert_eq!(status, RunStatus::Cancelled);
    let failed = error(outcome);
    assert_eq!(failed.kind(), RunErrorKind::Cancelled);
    assert_eq!(failed.to_string(), "the run was cancelled by its owner");
    assert_eq!(world.tools.running(), 0);
    let runs = world.store.list(&owner(), 100).await.unwrap();
    assert_eq!(runs[0].status, RunStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn superseded_run_stops() {
    let world = TestEnv::new();
    let workflow = workflow(json!([{"id": "a", "tool": "w.never"}]));
    let take = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.clock.advance(Duration::from_mins(1));
        world.store.acquire(&owner(), &world.id).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(world.run(&workflow, json!({})), take);
    assert_eq!(error(outcome).kind(), RunErrorKind::Superseded);
    assert_eq!(world.tools.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn finished_run_leaves_its_course_behind() {
    let world = TestEnv::new();
    let workflow =
        workflow(json!([{"id": "a", "tool": "w.echo", "arguments": {"text": "secret"}}]));
    crate::support::output(world.run(&workflow, json!({})).await);
    let record = world.store.read(&owner(), &world.id).await.unwrap();
    assert_eq!((record.status, record.steps.len()), (RunStatus::Completed, 1));
    assert!(!format!("{record:?}").contains("secret"), "{record:?}");
    let counts = world.store.counts().await.unwrap();
    assert_eq!((counts.runs, counts.active), (1, 0));
}
