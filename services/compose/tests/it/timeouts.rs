//! Timeouts of steps and workflows.

use serde_json::json;
use tokio::time::Instant;
use vmcp_compose::RunErrorKind;

use crate::support::{TestEnv, compile, error, workflow};

#[tokio::test(start_paused = true)]
async fn step_times_out() {
    let world = TestEnv::new();
    let workflow = workflow(json!([{"id": "a", "tool": "w.never", "timeout": "3s"}]));
    let started = Instant::now();
    let failed = error(world.run(&workflow, json!({})).await);
    assert_eq!(started.elapsed().as_secs(), 3);
    assert_eq!(failed.kind(), RunErrorKind::StepFailed);
    let expected = "step \"a\": tool w.never failed: no result within the step's timeout of 3s";
    assert_eq!(failed.to_string(), expected);
    assert_eq!(world.tools.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn workflow_times_out() {
    let world = TestEnv::new();
    let workflow = compile(json!({
        "name": "t", "timeout": "2s", "steps": [{"id": "a", "tool": "w.never"}],
    }));
    let started = Instant::now();
    let failed = error(world.run(&workflow, json!({})).await);
    assert_eq!(started.elapsed().as_secs(), 2);
    assert_eq!(failed.kind(), RunErrorKind::TimedOut);
    assert_eq!(failed.to_string(), "workflow t is not done within its timeout of 2s");
    assert_eq!(world.tools.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn timeouts_have_defaults() {
    let steps = json!([{"id": "a", "tool": "w.never"}]);
    let started = Instant::now();
    let failed = error(TestEnv::new().run(&workflow(steps), json!({})).await);
    assert_eq!((started.elapsed().as_secs(), failed.kind()), (5 * 60, RunErrorKind::StepFailed));
    let steps = json!([{"id": "a", "tool": "w.never", "timeout": "2h"}]);
    let started = Instant::now();
    let failed = error(TestEnv::new().run(&workflow(steps), json!({})).await);
    assert_eq!((started.elapsed().as_secs(), failed.kind()), (30 * 60, RunErrorKind::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn loop_times_out_as_one_step() {
    let world = TestEnv::new();
    let workflow = workflow(json!([{"id": "a", "type": "forEach", "timeout": "3s",
        "collection": "[1,2,3]", "maxParallel": 1,
        "step": {"tool": "w.sleep", "arguments": {"ms": 2000}}}]));
    let started = Instant::now();
    let failed = error(world.run(&workflow, json!({})).await);
    assert_eq!(started.elapsed().as_secs(), 3);
    assert!(failed.to_string().contains("timeout of 3s"), "{failed}");
    assert_eq!(world.tools.calls().len(), 2);
}
