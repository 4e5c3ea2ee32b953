//! Listed definitions, names and the tools that steps name.

use serde_json::{Value, json};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::caller::Caller;

use super::{backend, callers, output, sections, start};
use crate::common::{gateway_with, status, until};

fn one_step(name: &str, tool: &str) -> Value {
    json!({"name": name, "steps": [{"id": "s", "tool": tool, "arguments": {"text": name}}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_definition_with_schemas_and_annotations() {
    let a = backend("a", Protocol::Both).start();
    let parameters = json!({"type": "object", "properties": {"id": {"type": "integer", "minimum": 1}},
        "required": ["id"]});
    let mut report = one_step("report", "a.echo");
    report["description"] = "Writes a report".into();
    report["parameters"] = parameters.clone();
    report["output"] = json!({"required": ["title"], "properties": {
        "title": {"type": "string", "description": "The title", "value": "{{.params.id}}"},
        "more": {"type": "object", "properties": {"n": {"type": "integer", "value": "{{.params.id}}"}}},
    }});
    let tools = json!([report, one_step("risky", "a.fail")]);
    let gateway = start(&[&a], tools).await;
    for caller in &mut callers(&gateway).await {
        let list = caller.result("tools/list", json!({})).await.unwrap();
        let listed = |name: &str| {
            let found = list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name);
            found.unwrap_or_else(|| panic!("no {name}: {list}")).clone()
        };
        let expected = json!({
            "name": "report",
            "description": "Writes a report",
            "inputSchema": parameters,
            "outputSchema": {"type": "object", "required": ["title"], "properties": {
                "title": {"type": "string", "description": "The title"},
                "more": {"type": "object", "properties": {"n": {"type": "integer"}}},
            }},
            "annotations": {"readOnlyHint": true, "destructiveHint": false, "openWorldHint": false},
        });
        assert_eq!(listed("report"), expected);
        let risky = listed("risky");
        assert_eq!(risky["inputSchema"], json!({"type": "object"}));
        let worst = json!({"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true});
        assert_eq!(risky["annotations"], worst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_name_tools_by_workload_or_advertised_name() {
    let (a, b) =
        (backend("a", Protocol::Stateful).start(), backend("b", Protocol::Stateless).start());
    let tools = json!([
        one_step("by_workload", "a.echo"),
        one_step("by_override", "a.say"),
        one_step("by_advertised_name", "a_say"),
        one_step("of_hidden_backend", "b.echo"),
        one_step("of_filtered_tool", "a.fail"),
    ]);
    let aggregation = "aggregation: {tools: [{workload: b, excludeAll: true}, \
                       {workload: a, filter: [say], overrides: {echo: {name: say}}}]}\n";
    let gateway = gateway_with(&[&a, &b], &(sections(&tools) + aggregation)).await;
    for caller in &mut callers(&gateway).await {
        let mut names = caller.tools().await.unwrap();
        names.sort();
        let all = ["a_say", "by_advertised_name", "by_override", "by_workload", "of_filtered_tool"];
        assert_eq!(names, [&all[..], &["of_hidden_backend"]].concat());
        for name in ["by_workload", "by_override", "by_advertised_name", "of_hidden_backend"] {
            assert_eq!(output(caller, name, json!({})).await, json!({"text": name}));
        }
        // The steps may call it, clients may not.
        let answer = caller.ask("tools/call", json!({"name": "b_echo"})).await.unwrap();
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn backend_tool_of_same_name_hides_composite() {
    let a = backend("a", Protocol::Both).start();
    let tools = json!([one_step("a_echo", "a.fail"), one_step("other", "a.echo")]);
    let gateway = start(&[&a], tools).await;
    for caller in &mut callers(&gateway).await {
        let result = caller.call("a_echo", json!({"text": "x"})).await.unwrap();
        assert_eq!(result["structuredContent"], json!({"text": "x"}));
        assert_eq!(output(caller, "other", json!({})).await, json!({"text": "other"}));
    }
    let status = status(&gateway).await;
    let conflicts: Vec<_> = status["conflicts"].as_array().unwrap().iter().collect();
    let [conflict] = conflicts[..] else { panic!("one conflict: {status}") };
    assert_eq!(conflict["name"], "a_echo");
    assert_eq!(conflict["contenders"], json!(["a", "compositeTools"]));
    assert!(conflict["resolution"].as_str().unwrap().contains("another name"), "{conflict}");
}

#[tokio::test(flavor = "multi_thread")]
async fn composite_disappears_with_tool_of_its_step() {
    let a = backend("a", Protocol::Both).start();
    let gateway =
        start(&[&a], json!([one_step("echoes", "a.echo"), one_step("other", "a.fail")])).await;
    let mut callers = callers(&gateway).await;
    let [stateful, stateless] = &mut callers;
    let mut streams = [stateful.listen().await.unwrap(), stateless.listen().await.unwrap()];
    until("the gateway listens", async || a.open_streams() > 0).await;
    let fail = json!({"name": "fail", "inputSchema": {"type": "object"}});
    for (items, is_listed) in [(vec![fail.to_string()], false), (echo_and(&fail), true)] {
        a.set_items("tools", items);
        a.notify("notifications/tools/list_changed", &Value::Null);
        for stream in &mut streams {
            let change = stream.next().await.unwrap().unwrap();
            assert_eq!(change["method"], "notifications/tools/list_changed");
        }
        for caller in &mut callers {
            assert_eq!(is_offered(caller, "echoes").await, is_listed);
            assert!(is_offered(caller, "other").await);
        }
    }
}

fn echo_and(other: &Value) -> Vec<String> {
    let echo = json!({"name": "echo", "inputSchema": {"type": "object"}});
    vec![echo.to_string(), other.to_string()]
}

/// Returns `true` if a tool is listed. A tool that is not is unknown to calls.
async fn is_offered(caller: &mut Caller, name: &str) -> bool {
    let is_listed = caller.tools().await.unwrap().iter().any(|tool| tool == name);
    let answer = caller.ask("tools/call", json!({"name": name})).await.unwrap();
    assert_eq!(answer["error"]["code"] != -32602, is_listed, "{answer}");
    is_listed
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_replaces_definitions_of_composite_tools() {
    let a: McpBackend = backend("a", Protocol::Both).start();
    let gateway = start(&[&a], json!([one_step("before", "a.echo")])).await;
    let mut callers = callers(&gateway).await;
    let text = std::fs::read_to_string(gateway.config()).unwrap();
    std::fs::write(gateway.config(), text.replace("\"before\"", "\"after\"")).unwrap();
    gateway.signal("HUP").await.unwrap();
    for caller in &mut callers {
        until("the new tool is listed", async || {
            caller.tools().await.unwrap().iter().any(|tool| tool == "after")
        })
        .await;
        assert!(!is_offered(caller, "before").await);
        assert_eq!(output(caller, "after", json!({})).await, json!({"text": "after"}));
    }
}
