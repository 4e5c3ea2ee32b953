//! Lists and calls of clients of both generations.

use serde_json::json;
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::Gateway;

use super::{TOOLS, backend, callers, definition, find, forwarded, found, names, start};
use crate::common::{config, gateway_with, until};

#[tokio::test(flavor = "multi_thread")]
async fn clients_list_exactly_two_tools() {
    let a = backend("a", &TOOLS).start();
    let gateway = start(&[&a], json!({})).await;
    for caller in &mut callers(&gateway).await {
        assert_eq!(caller.tools().await.unwrap(), ["call_tool", "find_tool"]);
        assert_eq!(found(caller, "write a file").await[0], "a_write_file");
        let arguments = forwarded("a_write_file", json!({"text": "x", "n": 1.50}));
        let result = caller.call("call_tool", arguments).await.unwrap();
        assert_eq!(result["structuredContent"], json!({"text": "x", "n": 1.50}));
        let direct = caller.call("a_write_file", json!({"text": "y"})).await.unwrap();
        assert_eq!(direct["structuredContent"], json!({"text": "y"}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_tools_with_interface_where_clients_show_them() {
    let mut shown = definition("chart", "Shows a chart");
    shown["_meta"] = json!({"ui": {"resourceUri": "ui://chart"}});
    let mut private = definition("redraw", "Draws the chart again");
    private["_meta"] = json!({"ui": {"resourceUri": "ui://chart", "visibility": ["app"]}});
    let plain = definition("plain", "Plots a chart as text");
    let items = [shown, private, plain].map(|tool| tool.to_string());
    let a = backend("a", &[]).items("tools", items).start();
    let gateway = start(&[&a], json!({})).await;
    for caller in &mut callers(&gateway).await {
        assert_eq!(caller.tools().await.unwrap(), ["call_tool", "find_tool"]);
    }
    let extension = json!({"extensions": {"io.modelcontextprotocol/ui": {}}});
    let stateful = Caller::stateful_with(gateway.url(), extension.clone()).await.unwrap();
    for caller in &mut [stateful, Caller::stateless_with(gateway.url(), extension)] {
        let expected = ["a_chart", "a_redraw", "call_tool", "find_tool"];
        assert_eq!(caller.tools().await.unwrap(), expected);
        let mut chart = found(caller, "chart").await;
        chart.sort();
        assert_eq!(chart, ["a_chart", "a_plain"], "a tool for apps only is not for models");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_and_calls_composite_tools() {
    let a = backend("a", &TOOLS).start();
    let step =
        json!({"id": "s", "tool": "a.write_file", "arguments": {"text": "{{.params.text}}"}});
    let tools = json!([{"name": "publish_report", "description": "Publishes the quarterly report",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}, "steps": [step]}]);
    let gateway = gateway_with(&[&a], &format!("optimizer: {{}}\ncompositeTools: {tools}\n")).await;
    for caller in &mut callers(&gateway).await {
        assert_eq!(caller.tools().await.unwrap(), ["call_tool", "find_tool"]);
        assert_eq!(found(caller, "quarterly report").await[0], "publish_report");
        let arguments = forwarded("publish_report", json!({"text": "x"}));
        let result = caller.call("call_tool", arguments).await.unwrap();
        assert_eq!(result["structuredContent"], json!({"text": "x"}), "{result}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_lists_are_indexed_again() {
    let a = backend("a", &TOOLS).start();
    let gateway = start(&[&a], json!({})).await;
    let [mut stateful, mut stateless] = callers(&gateway).await;
    for caller in [&mut stateful, &mut stateless] {
        assert!(found(caller, "umbrella").await.is_empty());
    }
    a.add_tool("lend_umbrella");
    for caller in [&mut stateful, &mut stateless] {
        until("the new tool is found", async || {
            found(caller, "umbrella").await.first().is_some_and(|name| name == "a_lend_umbrella")
        })
        .await;
        let result = caller.call("call_tool", forwarded("a_lend_umbrella", json!({}))).await;
        assert_eq!(result.unwrap()["content"][0]["text"], "done");
    }
    a.set_items("tools", vec![definition("only", "Lends a parasol").to_string()]);
    a.notify("notifications/tools/list_changed", &json!(null));
    for caller in [&mut stateful, &mut stateless] {
        until("the old tools are gone", async || found(caller, "umbrella").await.is_empty()).await;
        assert_eq!(names(&find(caller, "parasol").await), ["a_only"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_report_missing_backends_as_lists_do() {
    let a = backend("a", &TOOLS).start();
    let all = || [(a.name(), a.url()), ("b", "http://127.0.0.1:1/mcp".to_owned())];
    let sections = |mode| {
        format!(
            "optimizer: {{}}\noperational: {{failureHandling: {{partialFailureMode: {mode}}}}}\n"
        )
    };
    let gateway = Gateway::start(&config(all(), &sections("best_effort"))).await.unwrap();
    let arguments = json!({"tool_description": "write a file"});
    for caller in &mut callers(&gateway).await {
        let result = caller.call("find_tool", arguments.clone()).await.unwrap();
        assert_eq!(names(&result["structuredContent"])[0], "a_write_file");
        assert_eq!(result["_meta"]["vmcp.dev/incomplete"][0]["backend"], "b", "{result}");
    }
    let gateway = Gateway::start(&config(all(), &sections("fail"))).await.unwrap();
    for caller in &mut callers(&gateway).await {
        let error = caller.call("find_tool", arguments.clone()).await.unwrap_err().to_string();
        assert!(error.contains("partialFailureMode is fail"), "{error}");
    }
}
