//! Runs that another process continues.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use vmcp_compose::{Answer, RunErrorKind, Workflow};

use crate::support::{TestEnv, Tools, User, error, output, owner, repeatable, workflow};

/// Runs a workflow for a second in one process, which then ends.
async fn interrupt(world: &TestEnv, workflow: &Workflow) {
    let run = world.run(workflow, json!({}));
    assert!(tokio::time::timeout(Duration::from_secs(1), run).await.is_err());
}

/// The same store, with another process's tools.
fn next_process(world: &TestEnv) -> TestEnv {
    TestEnv { tools: Tools::default(), events: Arc::default(), ..world.clone() }
}

#[tokio::test(start_paused = true)]
async fn recorded_steps_are_not_repeated() {
    let world = TestEnv::new().knows("w.sleep", repeatable());
    let workflow = workflow(json!([
        {"id": "a", "tool": "w.echo", "arguments": {"x": "from a"}},
        {"id": "skipped", "tool": "w.echo", "condition": "false"},
        {"id": "b", "tool": "w.sleep", "dependsOn": ["a"], "arguments": {"ms": 5000, "x": "{{.steps.a.output.x}}"}},
    ]));
    interrupt(&world, &workflow).await;
    assert_eq!(world.tools.steps(), ["a", "b"]);
    let next = next_process(&world);
    let out = output(next.resume(&workflow).await);
    assert_eq!(out, json!({"ms": 5000, "x": "from a"}));
    assert_eq!(next.tools.steps(), ["b"]);
    assert_eq!(next.tools.calls()[0].step.attempt, 2);
    assert_eq!(next.events()[0], "run resumed with 2 done");
}

#[tokio::test(start_paused = true)]
async fn interrupted_call_has_unknown_outcome() {
    let world = TestEnv::new();
    let workflow = workflow(json!([{"id": "a", "tool": "w.never"}]));
    interrupt(&world, &workflow).await;
    let next = next_process(&world);
    let failed = error(next.resume(&workflow).await);
    assert_eq!((failed.kind(), failed.step()), (RunErrorKind::OutcomeUnknown, Some("a")));
    assert!(failed.to_string().contains("its outcome is unknown"), "{failed}");
    assert!(next.tools.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn recorded_iterations_are_not_repeated() {
    let steps = json!([{"id": "each", "type": "forEach", "collection": "[10, 20, 5000, 30]", "maxParallel": 1,
        "step": {"tool": "w.sleep", "arguments": {"ms": "{{.forEach.item}}"}}}]);
    let info = vmcp_compose::ToolInfo {
        input_schema: Some(Arc::new(json!({"properties": {"ms": {"type": "integer"}}}))),
        ..repeatable()
    };
    let world = TestEnv::new().knows("w.sleep", info);
    let workflow = workflow(steps);
    interrupt(&world, &workflow).await;
    assert_eq!(world.tools.completed(), 2);
    let next = next_process(&world);
    let out = output(next.resume(&workflow).await);
    assert_eq!(out["completed"], 4);
    assert_eq!(out["iterations"][0]["output"], json!({"ms": 10}));
    let iterations: Vec<_> = next.tools.calls().iter().map(|call| call.step.iteration).collect();
    assert_eq!(iterations, [Some(2), Some(3)]);
}

#[tokio::test(start_paused = true)]
async fn interrupted_iteration_has_unknown_outcome() {
    let world = TestEnv::new();
    let workflow = workflow(json!([{"id": "each", "type": "forEach", "collection": "[1]",
        "onError": {"action": "continue"}, "step": {"tool": "w.never"}}]));
    interrupt(&world, &workflow).await;
    let failed = error(next_process(&world).resume(&workflow).await);
    assert_eq!(failed.kind(), RunErrorKind::OutcomeUnknown);
    assert!(failed.to_string().contains("iteration 0 of tool w.never"), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn waiting_retry_is_safe_to_repeat() {
    let world = TestEnv::new();
    let workflow = workflow(json!([{"id": "a", "tool": "w.flaky", "arguments": {"failures": 1},
        "onError": {"action": "retry", "retryCount": 1, "retryDelay": "10s"}}]));
    interrupt(&world, &workflow).await;
    let next = next_process(&world);
    error(next.run(&workflow, json!({})).await);
    let out = output(next.resume(&workflow).await);
    assert_eq!(out, json!({"failures": 1}), "the failed attempt did nothing");
    assert_eq!(next.tools.calls()[0].step.attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn open_question_is_asked_again() {
    let world = TestEnv::with_user(&User::new([]));
    let workflow = workflow(json!([
        {"id": "a", "type": "elicitation", "message": "A at {{.workflow.duration_ms}}?",
         "schema": {"type": "object"}},
    ]));
    interrupt(&world, &workflow).await;
    let user = User::new([("a", Answer::Accept(json!({"x": 1})))]);
    let next = TestEnv {
        elicitation: vmcp_compose::Elicitation::Wait(user.clone()),
        ..next_process(&world)
    };
    let out = output(next.resume(&workflow).await);
    assert_eq!(out, json!({"action": "accept", "content": {"x": 1}}));
    assert_eq!(user.asked(), ["A at 0?"], "with the message of the first time");
}

#[tokio::test(start_paused = true)]
async fn resumed_step_keeps_its_deadline() {
    let world = TestEnv::new().knows("w.never", repeatable());
    let workflow = workflow(json!([{"id": "a", "tool": "w.never", "timeout": "10s"}]));
    interrupt(&world, &workflow).await;
    world.clock.advance(Duration::from_secs(6));
    let started = tokio::time::Instant::now();
    error(next_process(&world).resume(&workflow).await);
    assert_eq!(started.elapsed().as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn late_run_calls_nothing() {
    let workflow = crate::support::compile(json!({"name": "t", "timeout": "1m", "steps": [
        {"id": "a", "tool": "w.never", "timeout": "10s", "onError": {"action": "continue"}},
        {"id": "b", "tool": "w.echo", "dependsOn": ["a"]},
    ]}));
    let world = TestEnv::new().knows("w.never", repeatable());
    interrupt(&world, &workflow).await;
    world.clock.advance(Duration::from_secs(10));
    let next = next_process(&world);
    output(next.resume(&workflow).await);
    assert_eq!(next.tools.steps(), ["b"], "the time of step a is over");
    let world = TestEnv::new().knows("w.never", repeatable());
    interrupt(&world, &workflow).await;
    world.clock.advance(Duration::from_mins(1));
    let next = next_process(&world);
    assert_eq!(error(next.resume(&workflow).await).kind(), RunErrorKind::TimedOut);
    assert!(next.tools.calls().is_empty(), "the time of the workflow is over");
}

#[tokio::test(start_paused = true)]
async fn skip_remaining_survives_interruption() {
    let user = User::new([("ask", Answer::Decline)]);
    let world = TestEnv::with_user(&user).knows("w.sleep", repeatable());
    let workflow = workflow(json!([
        {"id": "ask", "type": "elicitation", "message": "m", "schema": {"type": "object"},
         "onDecline": {"action": "skip_remaining"}},
        {"id": "slow", "tool": "w.sleep", "arguments": {"ms": 5000}},
        {"id": "after", "tool": "w.echo", "dependsOn": ["slow"]},
    ]));
    interrupt(&world, &workflow).await;
    let next = next_process(&world);
    output(next.resume(&workflow).await);
    assert_eq!(next.tools.steps(), ["slow"]);
}

#[tokio::test(start_paused = true)]
async fn changed_definition_ends_interrupted_run() {
    let world = TestEnv::new();
    interrupt(&world, &workflow(json!([{"id": "a", "tool": "w.never"}]))).await;
    let other = workflow(json!([{"id": "a", "tool": "w.echo"}]));
    let failed = error(next_process(&world).resume(&other).await);
    assert_eq!(failed.kind(), RunErrorKind::DefinitionChanged);
    assert_eq!(
        failed.to_string(),
        "the definition of workflow t changed during the run: call it again"
    );
}

#[tokio::test(start_paused = true)]
async fn lease_of_running_process_is_respected() {
    let world = TestEnv::new().knows("w.sleep", repeatable());
    let workflow = workflow(json!([{"id": "a", "tool": "w.sleep", "arguments": {"ms": 60_000}}]));
    let request = vmcp_compose::RunRequest {
        id: world.id.clone(),
        owner: owner(),
        arguments: serde_json::Map::new(),
        keeps_result: true,
    };
    let other = next_process(&world);
    let context = world.context();
    let (one, waited) =
        tokio::join!(vmcp_compose::run(&workflow, request, &context), other.resume(&workflow),);
    assert_eq!(output(one), output(waited), "the outcome of the other process");
    assert!(other.tools.calls().is_empty());
}
