//! Conditions, skipped steps, `onError` and `defaultResults`.

use serde_json::{Value, json};
use vmcp_compose::{RunErrorKind, Workflow};

use crate::support::{TestEnv, error, output, workflow};

fn conditional(condition: &str) -> Workflow {
    workflow(json!([
        {"id": "a", "tool": "w.echo", "condition": condition, "arguments": {"x": "ran"},
         "defaultResults": {"x": "default"}},
        {"id": "b", "tool": "w.echo", "dependsOn": ["a"], "arguments": {
            "x": "{{.steps.a.output.x}}", "status": "{{.steps.a.status}}",
        }},
    ]))
}

async fn run_conditional(condition: &str, go: Value) -> Value {
    output(TestEnv::new().run(&conditional(condition), json!({ "go": go })).await)
}

#[tokio::test(start_paused = true)]
async fn step_runs_if_condition_is_true() {
    for go in [json!(true), json!("true"), json!("True"), json!("TRUE")] {
        let out = run_conditional("{{.params.go}}", go).await;
        assert_eq!(out, json!({"x": "ran", "status": "completed"}));
    }
}

#[tokio::test(start_paused = true)]
async fn skipped_step_has_default_results() {
    for go in [json!(false), json!("false"), json!("False"), json!("FALSE")] {
        let out = run_conditional("{{.params.go}}", go).await;
        assert_eq!(out, json!({"x": "default", "status": "skipped"}));
    }
}

#[tokio::test(start_paused = true)]
async fn condition_is_exactly_true_or_false() {
    for (condition, found) in
        [("{{.params.go}}", "yes"), (" {{.params.go}}", " yes"), ("{{.params.gone}}", "<no value>")]
    {
        let outcome = TestEnv::new().run(&conditional(condition), json!({"go": "yes"})).await;
        let failed = error(outcome);
        assert_eq!((failed.kind(), failed.step()), (RunErrorKind::StepFailed, Some("a")));
        let expected = format!(
            "step \"a\": condition must be true, True, TRUE, false, False or FALSE; found \"{found}\""
        );
        assert_eq!(failed.to_string(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn failing_step_aborts_run() {
    let world = TestEnv::new();
    let workflow = workflow(json!([
        {"id": "a", "tool": "w.fail"},
        {"id": "beside", "tool": "w.never"},
        {"id": "b", "tool": "w.echo", "dependsOn": ["a"]},
    ]));
    let failed = error(world.run(&workflow, json!({})).await);
    assert_eq!((failed.kind(), failed.step()), (RunErrorKind::StepFailed, Some("a")));
    assert_eq!(failed.to_string(), "step \"a\": tool w.fail failed: broken");
    assert_eq!(world.tools.steps(), ["a", "beside"]);
    assert_eq!(world.tools.running(), 0, "the call beside it is cancelled");
    let events = world.events();
    assert_eq!(events[3..], ["a failed 1/3", "beside cancelled 1/3", "run finished: false"]);
}

#[tokio::test(start_paused = true)]
async fn run_continues_after_tolerated_failure() {
    for step in [
        json!({"id": "a", "tool": "w.fail"}),
        json!({"id": "a", "tool": "w.error", "arguments": {"kind": "denied"}}),
        json!({"id": "a", "tool": "w.echo", "condition": "{{.params.none}}"}),
        json!({"id": "a", "tool": "w.echo", "arguments": {"x": "{{len .params.none}}"}}),
        json!({"id": "a", "type": "forEach", "collection": "{{.params.none}}", "step": {"tool": "w.echo"}}),
        json!({"id": "a", "tool": "w.never", "timeout": "1s"}),
        json!({"id": "a", "type": "elicitation", "message": "m", "schema": {"type": "object"}}),
    ] {
        let mut step = step;
        step["onError"] = json!({"action": "continue"});
        step["defaultResults"] = json!({"action": "none", "count": 0});
        let field = if step["type"] == "forEach" { "count" } else { "action" };
        let read = format!("{{{{.steps.a.status}}}} {{{{.steps.a.output.{field}}}}}");
        let workflow = workflow(json!([
            step,
            {"id": "b", "tool": "w.echo", "dependsOn": ["a"], "arguments": {
                "x": read, "error": "{{if .steps.a.error}}told{{end}}",
            }},
        ]));
        let out = output(TestEnv::new().run(&workflow, json!({})).await);
        assert_eq!(out["error"], "told");
        assert!(["failed none", "failed 0"].contains(&out["x"].as_str().unwrap()), "{out}");
    }
}

#[tokio::test(start_paused = true)]
async fn denied_step_is_a_denial() {
    let workflow =
        workflow(json!([{"id": "a", "tool": "w.error", "arguments": {"kind": "denied"}}]));
    let failed = error(TestEnv::new().run(&workflow, json!({})).await);
    assert_eq!((failed.kind(), failed.step()), (RunErrorKind::Denied, Some("a")));
    assert_eq!(failed.to_string(), "step \"a\": tool w.error was denied: no result");
}

#[tokio::test(start_paused = true)]
async fn output_larger_than_limit_fails_step() {
    let workflow =
        workflow(json!([{"id": "a", "tool": "w.echo", "arguments": {"x": "{{.params.x}}"}}]));
    let large = "x".repeat(1024 * 1024 + 1);
    let failed = error(TestEnv::new().run(&workflow, json!({ "x": large })).await);
    assert_eq!(
        failed.to_string(),
        "step \"a\": the output is larger than 1 MiB: ask the tool for less"
    );
}
