//! Steps, their order, errors and timeouts, and the output.

use serde_json::json;
use vmcp_test_support::mcp_backend::Protocol;

use super::{PROTOCOLS, backend, callers, calls, failure, output, start};

#[tokio::test(flavor = "multi_thread")]
async fn steps_pass_results_on_through_templates() {
    let tool = json!([{
        "name": "chain",
        "parameters": {"type": "object", "properties": {
            "id": {"type": "integer"}, "loud": {"type": "boolean", "default": true},
        }, "required": ["id"]},
        "steps": [
            // Declared before the step that it depends on.
            {"id": "second", "type": "tool", "tool": "a_echo", "dependsOn": ["first"], "arguments": {
                "text": "was {{.steps.first.output.text}}",
                "count": "{{.steps.first.output.count}}",
                "flag": "{{.params.loud}}",
                "fixed": 7,
                "nested": {"text": "{{.params.id}}"},
            }},
            {"id": "first", "tool": "a.echo",
             "arguments": {"text": "item {{.params.id}}", "count": "{{.params.id}}"}},
        ],
        "output": {"properties": {"second": {
            "type": "object", "value": "{{json .steps.second.output}}",
        }}},
    }]);
    for protocol in PROTOCOLS {
        let a = backend("a", protocol).start();
        let gateway = start(&[&a], tool.clone()).await;
        for caller in &mut callers(&gateway).await {
            let seen = output(caller, "chain", json!({"id": 1_700_000_000})).await;
            let expected = json!({
                "text": "was item 1700000000", "count": 1_700_000_000, "flag": true, "fixed": 7,
                "nested": {"text": "{{.params.id}}"},
            });
            assert_eq!(seen, json!({"second": expected}), "{protocol:?}");
            let answer = caller
                .ask("tools/call", json!({"name": "chain", "arguments": {"id": "x"}}))
                .await
                .unwrap();
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
            assert!(
                answer["error"]["message"].as_str().unwrap().contains("id: the value"),
                "{answer}"
            );
        }
        assert_eq!(calls(&a, "echo").len(), 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn condition_skips_step_for_default_results() {
    let a = backend("a", Protocol::Stateless).start();
    let tool = json!([{
        "name": "maybe",
        "parameters": {"type": "object", "properties": {"go": {"type": "boolean"}}},
        "steps": [
            {"id": "one", "tool": "a.echo", "arguments": {"text": "called"},
             "condition": "{{.params.go}}", "defaultResults": {"text": "skipped"}},
            {"id": "two", "tool": "a.echo", "dependsOn": ["one"],
             "arguments": {"text": "{{.steps.one.output.text}}, {{.steps.one.status}}"}},
        ],
    }]);
    let gateway = start(&[&a], tool).await;
    for caller in &mut callers(&gateway).await {
        let called = output(caller, "maybe", json!({"go": true})).await;
        assert_eq!(called, json!({"text": "called, completed"}));
        let skipped = output(caller, "maybe", json!({"go": false})).await;
        assert_eq!(skipped, json!({"text": "skipped, skipped"}));
        let text = failure(caller, "maybe", json!({})).await;
        assert!(text.contains("condition") && text.contains("one"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_step_aborts_continues_or_retries() {
    let a = backend("a", Protocol::Stateful).start();
    let after = json!({"id": "after", "tool": "a.echo", "dependsOn": ["broken"],
        "arguments": {"text": "{{.steps.broken.output.text}}"}});
    let tool = |name: &str, on_error: serde_json::Value| {
        let broken = json!({"id": "broken", "tool": "a.fail", "onError": on_error,
            "defaultResults": {"text": "default"}, "timeout": "5s"});
        json!({"name": name, "steps": [broken, after]})
    };
    let tools = json!([
        tool("aborts", json!({"action": "abort"})),
        tool("continues", json!({"action": "continue"})),
        tool("retries", json!({"action": "retry", "retryCount": 2, "retryDelay": "1ms"})),
        // No retry can begin before the timeout of the step.
        tool("waits", json!({"action": "retry", "retryCount": 2, "retryDelay": "1h"})),
    ]);
    let gateway = start(&[&a], tools).await;
    let mut before = 0;
    for caller in &mut callers(&gateway).await {
        let seen = output(caller, "continues", json!({})).await;
        assert_eq!(seen, json!({"text": "default"}));
        before += 1;
        for (name, attempts) in [("aborts", 1), ("retries", 3), ("waits", 1)] {
            let text = failure(caller, name, json!({})).await;
            assert!(text.contains("step \"broken\"") && text.contains("it broke"), "{text}");
            before += attempts;
            assert_eq!(calls(&a, "fail").len(), before, "{name}");
        }
    }
    assert_eq!(calls(&a, "echo").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn timeouts_of_step_and_workflow_apply() {
    let tools = json!([
        {"name": "slow_step", "steps": [{"id": "s", "tool": "a.hang", "timeout": "150ms"}]},
        {"name": "slow_run", "timeout": "160ms", "steps": [{"id": "s", "tool": "a.hang"}]},
    ]);
    for protocol in PROTOCOLS {
        let a = backend("a", protocol).start();
        let gateway = start(&[&a], tools.clone()).await;
        for caller in &mut callers(&gateway).await {
            let text = failure(caller, "slow_step", json!({})).await;
            assert!(text.contains("150ms"), "{text}");
            let text = failure(caller, "slow_run", json!({})).await;
            assert!(text.contains("160ms"), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn iterations_follow_collection_and_limits() {
    let a = backend("a", Protocol::Stateless).start();
    let inner = |tool: &str, on_error: serde_json::Value| {
        json!({"id": "inner", "type": "tool", "tool": tool, "onError": on_error, "arguments": {
            "text": "{{.forEach.word}}", "count": "{{.forEach.index}}",
        }})
    };
    let each = |name: &str, tool: &str, on_error: serde_json::Value| {
        json!({"name": name, "steps": [{"id": "each", "type": "forEach",
            "collection": "{{json .params.words}}", "itemVar": "word", "maxIterations": 3,
            "maxParallel": 1, "step": inner(tool, on_error)}]})
    };
    let tools = json!([
        each("all", "a.echo", json!({"action": "abort"})),
        each("again", "a.fail", json!({"action": "retry", "retryCount": 1, "retryDelay": "1ms"}),),
    ]);
    let gateway = start(&[&a], tools).await;
    for caller in &mut callers(&gateway).await {
        let seen = output(caller, "all", json!({"words": ["x", "y", "z"]})).await;
        assert_eq!(
            (&seen["count"], &seen["completed"], &seen["failed"]),
            (&json!(3), &json!(3), &json!(0))
        );
        let last = &seen["iterations"][2];
        assert_eq!(last["output"], json!({"text": "z", "count": 2}));
        let before = calls(&a, "echo").len();
        let text = failure(caller, "all", json!({"words": ["x", "y", "z", "too many"]})).await;
        assert!(text.contains("maxIterations is 3"), "{text}");
        let text = failure(caller, "all", json!({"words": "x"})).await;
        assert!(text.contains("not a JSON array"), "{text}");
        assert_eq!(calls(&a, "echo").len(), before);
        let before = calls(&a, "fail").len();
        failure(caller, "again", json!({"words": ["x"]})).await;
        assert_eq!(calls(&a, "fail").len() - before, 2);
    }
    // One at a time keeps the order.
    let words: Vec<_> = calls(&a, "echo").into_iter().map(|call| call["text"].clone()).collect();
    assert_eq!(words, [["x", "y", "z"]; 2].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn output_has_types_defaults_and_members() {
    let a = backend("a", Protocol::Stateless).start();
    let steps = json!([{"id": "read", "tool": "a.echo", "arguments": {"text": "12"}}]);
    let text = "{{.steps.read.output.text}}";
    let tools = json!([
        {"name": "typed", "steps": steps, "output": {"required": ["text"], "properties": {
            "text": {"type": "string", "value": text},
            "whole": {"type": "integer", "value": text},
            "number": {"type": "number", "value": "{{.steps.read.output.text}}.5"},
            "flag": {"type": "boolean", "value": "true"},
            "list": {"type": "array", "value": "[{{.steps.read.output.text}}]"},
            "object": {"type": "object", "properties": {
                "inner": {"type": "integer", "value": text},
            }},
            "other": {"type": "integer", "value": "{{.steps.read.output.nothing}}", "default": 3},
        }}},
        {"name": "lacking", "steps": steps, "output": {"required": ["text"], "properties": {
            "text": {"type": "string", "value": "{{.steps.read.output.nothing}}"},
        }}},
        {"name": "last", "steps": steps},
    ]);
    let gateway = start(&[&a], tools).await;
    for caller in &mut callers(&gateway).await {
        let seen = output(caller, "typed", json!({})).await;
        let expected = json!({
            "text": "12", "whole": 12, "number": 12.5, "flag": true, "list": [12],
            "object": {"inner": 12}, "other": 3,
        });
        assert_eq!(seen, expected);
        assert_eq!(output(caller, "last", json!({})).await, json!({"text": "12"}));
        let text = failure(caller, "lacking", json!({})).await;
        assert!(text.contains("no value"), "{text}");
    }
}
