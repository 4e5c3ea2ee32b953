//! Order of steps and flow of data.

use serde_json::json;
use tokio::time::Instant;

use crate::support::{TestEnv, output, workflow};

#[tokio::test(start_paused = true)]
async fn step_reads_output_of_dependency() {
    let world = TestEnv::new();
    let workflow = workflow(json!([
        {"id": "find", "tool": "w.echo", "arguments": {"title": "T", "n": 7}},
        {"id": "read", "tool": "w.echo", "dependsOn": ["find"], "arguments": {
            "title": "{{.steps.find.output.title}} by {{.params.name}}",
            "list": "{{json .steps.find.output}}",
            "status": "{{.steps.find.status}}",
        }},
    ]));
    let out = output(world.run(&workflow, json!({"name": "ada"})).await);
    let expected = json!({
        "title": "T by ada", "list": "{\"n\":7,\"title\":\"T\"}", "status": "completed",
    });
    assert_eq!(out, expected);
}

#[tokio::test(start_paused = true)]
async fn sends_nested_and_other_values_unchanged() {
    let world = TestEnv::new();
    let arguments = json!({"n": 1, "b": true, "o": {"t": "{{.params.x}}"}, "l": ["{{.params.x}}"]});
    let workflow = workflow(json!([{"id": "a", "tool": "w.echo", "arguments": arguments}]));
    output(world.run(&workflow, json!({"x": "1"})).await);
    assert_eq!(world.tools.arguments("a"), arguments);
}

#[tokio::test(start_paused = true)]
async fn independent_steps_run_at_once() {
    let world = TestEnv::new();
    let workflow = workflow(json!([
        {"id": "a", "tool": "w.sleep", "arguments": {"ms": 50}},
        {"id": "b", "tool": "w.sleep", "arguments": {"ms": 50}},
        {"id": "c", "tool": "w.sleep", "arguments": {"ms": 50}, "dependsOn": ["a", "b"]},
    ]));
    let started = Instant::now();
    output(world.run(&workflow, json!({})).await);
    assert_eq!(started.elapsed().as_millis(), 100);
}

#[tokio::test(start_paused = true)]
async fn step_waits_for_own_dependencies_only() {
    let world = TestEnv::new();
    let workflow = workflow(json!([
        {"id": "slow", "tool": "w.sleep", "arguments": {"ms": 100}},
        {"id": "fast", "tool": "w.sleep", "arguments": {"ms": 10}},
        {"id": "after_fast", "tool": "w.sleep", "arguments": {"ms": 90}, "dependsOn": ["fast"]},
    ]));
    let started = Instant::now();
    output(world.run(&workflow, json!({})).await);
    assert_eq!(started.elapsed().as_millis(), 100);
}

#[tokio::test(start_paused = true)]
async fn runs_ten_steps_at_once() {
    let world = TestEnv::new();
    let steps: Vec<_> = (0..25)
        .map(|n| json!({"id": format!("s{n}"), "tool": "w.sleep", "arguments": {"ms": 10}}))
        .collect();
    output(world.run(&workflow(steps.into()), json!({})).await);
    assert_eq!(world.tools.max_running(), 10);
    assert_eq!(world.tools.calls().len(), 25);
}

#[tokio::test(start_paused = true)]
async fn template_reads_content_by_name() {
    let world = TestEnv::new();
    let workflow = workflow(json!([
        {"id": "a", "tool": "w.text", "arguments": {"text": "hello"}},
        {"id": "b", "tool": "w.echo", "dependsOn": ["a"], "arguments": {
            "content": "{{.steps.a.content.text}}", "output": "{{.steps.a.output.text}}",
        }},
    ]));
    let out = output(world.run(&workflow, json!({})).await);
    assert_eq!(out, json!({"content": "hello", "output": "hello"}));
}

#[tokio::test(start_paused = true)]
async fn template_reads_facts_about_run() {
    let world = TestEnv::new();
    let workflow = workflow(json!([
        {"id": "wait", "tool": "w.sleep", "arguments": {"ms": 30}},
        {"id": "a", "tool": "w.echo", "dependsOn": ["wait"], "arguments": {
            "id": "{{.workflow.id}}", "at": "{{.workflow.start_time}}", "s": "{{.workflow.status}}",
            "ms": "{{.workflow.duration_ms}}", "n": "{{.workflow.step_count}}",
        }},
    ]));
    let out = output(world.run(&workflow, json!({})).await);
    let expected = json!({
        "id": "run-1", "at": "2001-09-09T01:46:40Z", "s": "running", "ms": "30", "n": "2",
    });
    assert_eq!(out, expected);
}

#[tokio::test(start_paused = true)]
async fn step_id_with_hyphen_is_read_by_index() {
    let world = TestEnv::new();
    let workflow = workflow(json!([
        {"id": "my-step", "tool": "w.echo", "arguments": {"x": "1"}},
        {"id": "b", "tool": "w.echo", "dependsOn": ["my-step"],
         "arguments": {"x": "{{index .steps \"my-step\" \"output\" \"x\"}}"}},
    ]));
    assert_eq!(output(world.run(&workflow, json!({})).await), json!({"x": "1"}));
}

#[tokio::test(start_paused = true)]
async fn calls_carry_identity_of_step() {
    let world = TestEnv::new();
    let workflow = workflow(json!([{"id": "a", "tool": "w.echo"}]));
    output(world.run(&workflow, json!({})).await);
    let call = &world.tools.calls()[0];
    assert_eq!((&*call.tool, &*call.step.workflow, &*call.step.step), ("w.echo", "t", "a"));
    assert_eq!((call.step.attempt, call.step.iteration), (1, None));
    assert_eq!(call.step.idempotency_key(), "run-1/a");
}

#[tokio::test(start_paused = true)]
async fn observer_gets_progress_of_steps() {
    let world = TestEnv::new();
    let workflow = workflow(json!([
        {"id": "a", "tool": "w.echo"},
        {"id": "b", "tool": "w.echo", "condition": "false", "dependsOn": ["a"]},
    ]));
    output(world.run(&workflow, json!({})).await);
    let expected =
        ["run of 2 started", "a started", "a completed 1/2", "b skipped 2/2", "run finished: true"];
    assert_eq!(world.events(), expected);
}
