//! Retries of calls.

use serde_json::json;
use tokio::time::Instant;
use vmcp_compose::RunErrorKind;

use crate::support::{TestEnv, error, output, workflow};

#[tokio::test(start_paused = true)]
async fn retries_with_growing_delays() {
    let world = TestEnv::new();
    let workflow = workflow(json!([{"id": "a", "tool": "w.flaky", "arguments": {"failures": 3},
        "onError": {"action": "retry", "retryCount": 3, "retryDelay": "2s"}}]));
    let started = Instant::now();
    output(world.run(&workflow, json!({})).await);
    assert_eq!(started.elapsed().as_millis(), 2_000 + 3_000 + 4_500);
    let attempts: Vec<_> = world.tools.calls().iter().map(|call| call.step.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    assert!(world.events().contains(&"a attempt 3 after 3s".to_owned()), "{:?}", world.events());
}

#[tokio::test(start_paused = true)]
async fn exhausted_retries_abort_run() {
    let world = TestEnv::new();
    let workflow = workflow(json!([{"id": "a", "tool": "w.fail",
        "onError": {"action": "retry", "retryCount": 2}}]));
    let failed = error(world.run(&workflow, json!({})).await);
    assert_eq!(failed.to_string(), "step \"a\": tool w.fail failed: broken");
    assert_eq!(world.tools.calls().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn repeats_only_what_may_pass() {
    for (kind, attempts) in [
        ("transport", 2),
        ("timeout", 2),
        ("429", 2),
        ("5xx", 2),
        ("circuit", 2),
        ("denied", 1),
        ("unknown", 1),
        ("invalid", 1),
        ("cancelled", 1),
    ] {
        let world = TestEnv::new();
        let workflow = workflow(json!([{"id": "a", "tool": "w.error", "arguments": {"kind": kind},
            "onError": {"action": "retry", "retryCount": 1}}]));
        error(world.run(&workflow, json!({})).await);
        assert_eq!(world.tools.calls().len(), attempts, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_waits_as_long_as_backend_asks() {
    let world = TestEnv::new();
    let workflow = workflow(json!([{"id": "a", "tool": "w.busy",
        "onError": {"action": "retry", "retryCount": 1}}]));
    let started = Instant::now();
    error(world.run(&workflow, json!({})).await);
    assert_eq!(started.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn retry_at_end_of_timeout_is_not_sent() {
    let world = TestEnv::new();
    let workflow = workflow(json!([{"id": "a", "tool": "w.fail", "timeout": "1s",
        "onError": {"action": "retry", "retryCount": 1, "retryDelay": "1s"}}]));
    let started = Instant::now();
    error(world.run(&workflow, json!({})).await);
    assert_eq!((world.tools.calls().len(), started.elapsed().as_secs()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn retries_end_with_timeout_of_step() {
    let world = TestEnv::new();
    let workflow = workflow(json!([{"id": "a", "tool": "w.fail", "timeout": "4s",
        "onError": {"action": "retry", "retryCount": 10, "retryDelay": "1s"}}]));
    let failed = error(world.run(&workflow, json!({})).await);
    assert_eq!(failed.kind(), RunErrorKind::StepFailed);
    assert_eq!(failed.to_string(), "step \"a\": tool w.fail failed: broken");
    assert_eq!(world.tools.calls().len(), 3, "after 0 s, 1 s and 2.5 s");
}
