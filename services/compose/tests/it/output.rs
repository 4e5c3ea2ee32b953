//! Output of runs.

use serde_json::{Value, json};
use vmcp_compose::{Outcome, RunErrorKind};

use crate::support::{TestEnv, compile, error, output, workflow};

async fn construct(properties: Value, required: Value) -> Outcome {
    let workflow = compile(json!({
        "name": "t",
        "steps": [{"id": "a", "tool": "w.echo", "arguments": {
            "n": 7, "big": 1_234_567_890_i64, "f": 1.5, "b": true, "s": "text",
            "list": [1, 2], "object": {"k": "v"}, "null": null,
        }}],
        "output": {"properties": properties, "required": required},
    }));
    TestEnv::new().run(&workflow, json!({})).await
}

#[tokio::test(start_paused = true)]
async fn output_converts_text_to_types() {
    let outcome = construct(
        json!({
            "s": {"type": "string", "value": "{{.steps.a.output.n}}"},
            "i": {"type": "integer", "value": "{{.steps.a.output.big}}"},
            "n": {"type": "number", "value": "{{.steps.a.output.f}}"},
            "b": {"type": "boolean", "value": "{{.steps.a.output.b}}"},
            "one": {"type": "boolean", "value": "1"},
            "l": {"type": "array", "value": "{{json .steps.a.output.list}}"},
            "o": {"type": "object", "value": "{\"a\":{\"b\":\"{{.steps.a.output.s}}\"}}"},
            "j": {"type": "object", "value": "{\"a\":{{json .steps.a.output.object}}}"},
            "p": {"type": "object", "properties": {
                "k": {"type": "string", "value": "{{.steps.a.output.object.k}}"},
            }},
        }),
        json!(["s", "p"]),
    )
    .await;
    let expected = json!({
        "s": "7", "i": 1_234_567_890, "n": 1.5, "b": true, "one": true, "l": [1, 2],
        "o": {"a": {"b": "text"}}, "j": {"a": {"k": "v"}}, "p": {"k": "v"},
    });
    assert_eq!(output(outcome), expected);
}

#[tokio::test(start_paused = true)]
async fn default_replaces_value_that_is_missing() {
    let outcome = construct(
        json!({
            "absent": {"type": "integer", "value": "{{.steps.a.output.none}}", "default": 1.9},
            "null": {"type": "string", "value": "{{.steps.a.output.null}}", "default": 5},
            "wrong": {"type": "boolean", "value": "{{.steps.a.output.s}}", "default": "T"},
            "failed": {"type": "array", "value": "{{len .steps.a.output.n}}", "default": "[1]"},
            "nested": {"type": "object", "default": {}, "properties": {
                "x": {"type": "string", "value": "{{.steps.a.output.none}}"},
            }},
        }),
        json!([]),
    )
    .await;
    let expected = json!({"absent": 1, "null": "5", "wrong": true, "failed": [1], "nested": {}});
    assert_eq!(output(outcome), expected);
}

#[tokio::test(start_paused = true)]
async fn value_without_default_fails_run() {
    for (property, expected) in [
        (
            json!({"type": "string", "value": "{{.steps.a.output.none}}"}),
            "has no value: set a default",
        ),
        (
            json!({"type": "integer", "value": "{{.steps.a.output.s}}"}),
            "is not of type integer; found \"text\"",
        ),
        (
            json!({"type": "object", "value": "{{.steps.a.output.object}}"}),
            "is not of type object: use json to write JSON; found \"map[k:v]\"",
        ),
    ] {
        let failed = error(construct(json!({ "x": property }), json!([])).await);
        assert_eq!(failed.kind(), RunErrorKind::OutputFailed);
        let expected = format!(
            "failed to construct the output: compositeTools[0].output.properties.x {expected}"
        );
        assert_eq!(failed.to_string(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn limits_size_of_output() {
    let workflow = compile(json!({
        "name": "t", "steps": [{"id": "a", "tool": "w.echo"}],
        "output": {"properties": {
            "x": {"type": "string", "value": "{{.params.x}}"},
            "y": {"type": "string", "value": "{{.params.x}}"},
        }},
    }));
    let failed =
        error(TestEnv::new().run(&workflow, json!({"x": "x".repeat(6 * 1024 * 1024)})).await);
    assert_eq!(failed.to_string(), "failed to construct the output: it is larger than 10 MiB");
}

#[tokio::test(start_paused = true)]
async fn result_is_text_and_structured_content() {
    let workflow = workflow(json!([{"id": "a", "tool": "w.echo", "arguments": {"x": 1}}]));
    let Outcome::Completed(out) = TestEnv::new().run(&workflow, json!({})).await else {
        panic!("completed")
    };
    assert_eq!(out.text(), "{\"x\":1}");
    assert_eq!(out.structured_content().unwrap()["x"], 1);
}

#[tokio::test(start_paused = true)]
async fn last_declared_completed_step_is_output() {
    let workflow = workflow(json!([
        {"id": "late", "tool": "w.sleep", "arguments": {"ms": 9}},
        {"id": "early", "tool": "w.echo", "arguments": {"x": 1}},
        {"id": "skipped", "tool": "w.echo", "condition": "false"},
        {"id": "failed", "tool": "w.fail", "onError": {"action": "continue"}},
    ]));
    assert_eq!(output(TestEnv::new().run(&workflow, json!({})).await), json!({"x": 1}));
}

#[tokio::test(start_paused = true)]
async fn run_without_completed_step_returns_null() {
    let workflow = workflow(json!([{"id": "a", "tool": "w.echo", "condition": "false"}]));
    let Outcome::Completed(out) = TestEnv::new().run(&workflow, json!({})).await else {
        panic!("completed")
    };
    assert_eq!((out.text().as_str(), out.structured_content()), ("null", None));
}

#[test]
fn output_schema_describes_properties() {
    let workflow = compile(json!({
        "name": "t", "steps": [{"id": "a", "tool": "w.echo"}],
        "output": {"required": ["o"], "properties": {
            "o": {"type": "object", "description": "d", "properties": {
                "n": {"type": "integer", "value": "1", "default": 1},
            }},
        }},
    }));
    let expected = json!({
        "type": "object", "required": ["o"], "properties": {
            "o": {"type": "object", "description": "d", "properties": {"n": {"type": "integer"}}},
        },
    });
    assert_eq!(workflow.output_schema(), Some(&expected));
}
