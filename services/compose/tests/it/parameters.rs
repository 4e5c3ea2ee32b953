//! Arguments of the client, and those of tools.

use std::sync::Arc;

use serde_json::json;
use vmcp_compose::{RunErrorKind, ToolInfo};

use crate::support::{TestEnv, compile, error, output, workflow};

#[tokio::test(start_paused = true)]
async fn arguments_are_checked_before_any_call() {
    let world = TestEnv::new();
    let workflow = compile(json!({
        "name": "t",
        "parameters": {
            "type": "object", "required": ["city"],
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 7}},
        },
        "steps": [{"id": "a", "tool": "w.echo"}],
    }));
    for (arguments, expected) in [
        (json!({}), "invalid arguments for tool t: \"city\" is a required property"),
        (
            json!({"city": "Oslo", "days": "x"}),
            "invalid arguments for tool t: days: the value is not of type \"integer\"",
        ),
        (
            json!({"city": 1, "days": 8}),
            "invalid arguments for tool t: city: the value is not of type \"string\"; \
             days: the value is greater than the maximum of 7",
        ),
    ] {
        let failed = error(world.run(&workflow, arguments).await);
        assert_eq!(failed.kind(), RunErrorKind::InvalidArguments);
        assert_eq!(failed.to_string(), expected);
    }
    assert!(world.tools.calls().is_empty());
    output(world.run(&workflow, json!({"city": "Oslo", "days": 7})).await);
}

#[tokio::test(start_paused = true)]
async fn absent_arguments_have_defaults() {
    let workflow = compile(json!({
        "name": "t",
        "parameters": {
            "type": "object", "required": ["days"],
            "properties": {"days": {"type": "integer", "default": 3}},
        },
        "steps": [{"id": "a", "tool": "w.echo", "arguments": {"days": "{{.params.days}}"}}],
    }));
    for (arguments, days) in [(json!({}), "3"), (json!({"days": 5}), "5")] {
        let out = output(TestEnv::new().run(&workflow, arguments).await);
        assert_eq!(out, json!({ "days": days }));
    }
}

#[test]
fn tool_without_parameters_takes_any_object() {
    let workflow = workflow(json!([{"id": "a", "tool": "w.echo"}]));
    assert_eq!(*workflow.input_schema(), json!({"type": "object"}));
}

#[tokio::test(start_paused = true)]
async fn limits_size_of_arguments() {
    let large = "{{.params.x}}";
    let workflow =
        workflow(json!([{"id": "a", "tool": "w.text", "arguments": {"x": large, "y": large}}]));
    let world = TestEnv::new();
    let half = "x".repeat(5 * 1024 * 1024);
    output(world.run(&workflow, json!({ "x": half })).await);
    let world = TestEnv::new();
    let failed = error(world.run(&workflow, json!({"x": format!("{half}x")})).await);
    assert_eq!(failed.to_string(), "step \"a\": the arguments are larger than 10 MiB");
}

#[tokio::test(start_paused = true)]
async fn text_becomes_type_of_tool_schema() {
    let schema = json!({"type": "object", "properties": {
        "i": {"type": "integer"}, "n": {"type": "number"}, "b": {"type": "boolean"},
        "s": {"type": "string"}, "o": {"type": "object"}, "m": {"type": ["integer", "null"]},
        "bad": {"type": "integer"},
    }});
    let info = ToolInfo { input_schema: Some(Arc::new(schema)), ..ToolInfo::default() };
    let world = TestEnv::new().knows("w.echo", info);
    let workflow = workflow(json!([{"id": "a", "tool": "w.echo", "arguments": {
        "i": "{{.params.id}}", "n": "{{.params.half}}", "b": "{{.params.yes}}", "s": "5",
        "o": "{}", "m": "5", "bad": "five", "other": "5",
    }}]));
    let arguments = json!({"id": 1_700_000_000_123_u64, "half": 0.5, "yes": true});
    output(world.run(&workflow, arguments).await);
    let expected = json!({
        "i": 1_700_000_000_123_u64, "n": 0.5, "b": true, "s": "5", "o": "{}", "m": "5",
        "bad": "five", "other": "5",
    });
    assert_eq!(world.tools.arguments("a"), expected);
}

#[tokio::test(start_paused = true)]
async fn long_integers_keep_their_digits() {
    let schema = json!({"properties": {"i": {"type": "integer"}, "u": {"type": "number"}}});
    let info = ToolInfo { input_schema: Some(Arc::new(schema)), ..ToolInfo::default() };
    let world = TestEnv::new().knows("w.echo", info);
    let workflow = crate::support::compile(json!({
        "name": "t",
        "steps": [
            {"id": "a", "tool": "w.echo", "arguments": {"i": "{{.params.i}}", "u": "{{.params.u}}"}},
            {"id": "b", "tool": "w.echo", "dependsOn": ["a"],
             "arguments": {"i": "{{.steps.a.output.i}}", "text": "id {{.steps.a.output.u}}"}},
            {"id": "each", "type": "forEach", "dependsOn": ["a"],
             "collection": "[{{.steps.a.output.i}}, {{json .steps.a.output.u}}]",
             "step": {"tool": "w.echo", "arguments": {"i": "{{.forEach.item}}"}}},
        ],
        "output": {"properties": {
            "i": {"type": "integer", "value": "{{.steps.b.output.i}}"},
            "u": {"type": "integer", "value": "{{.params.u}}"},
            "all": {"type": "array", "value": "{{json .steps.each.output.iterations}}"},
        }},
    }));
    let (signed, unsigned) = (-9_007_199_254_740_993_i64, u64::MAX);
    let out = output(world.run(&workflow, json!({"i": signed, "u": unsigned})).await);
    assert_eq!(world.tools.arguments("a"), json!({"i": signed, "u": unsigned}));
    let expected = json!({"i": signed, "text": "id 18446744073709551615"});
    assert_eq!(world.tools.arguments("b"), expected);
    assert_eq!((&out["i"], &out["u"]), (&json!(signed), &json!(unsigned)));
    assert_eq!(out["all"][0]["output"], json!({"i": signed}));
    assert_eq!(out["all"][1]["output"], json!({"i": unsigned}));
}
