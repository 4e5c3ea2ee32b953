//! Composite tools over sockets, for the clients and backends of both generations.

mod answers;
mod audit;
mod cancellation;
mod definition;
mod invalid_results;
mod metrics;
mod owned_runs;
mod permissions;
mod questions;
mod steps;
mod tasks;

use serde_json::{Value, json};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::{McpBackendBuilder, Protocol};
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::Gateway;

use crate::common::gateway_with;

/// Protocols of backends.
const PROTOCOLS: [Protocol; 2] = [Protocol::Stateful, Protocol::Stateless];

/// Returns a builder of a backend with three tools: the read-only `echo` returns its arguments, `fail` reports a failure, and
/// `hang` never responds.
fn backend(name: &str, protocol: Protocol) -> McpBackendBuilder {
    let echo = json!({
        "name": "echo",
        "inputSchema": {"type": "object", "properties": {
            "text": {"type": "string"}, "count": {"type": "integer"}, "flag": {"type": "boolean"},
        }},
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    });
    let fail = json!({"name": "fail", "inputSchema": {"type": "object"}});
    let hang = json!({"name": "hang", "inputSchema": {"type": "object"}});
    McpBackend::builder(protocol)
        .name(name)
        .capabilities(json!({"tools": {"listChanged": true}}))
        .notification_streams()
        .items("tools", [echo, fail, hang].map(|tool| tool.to_string()))
        .on_tool("echo", |call| {
            let arguments = call.params()["arguments"].clone();
            let text = json!({"type": "text", "text": "echoed"});
            call.succeed(&json!({"content": [text], "structuredContent": arguments}));
        })
        .on_tool("fail", |call| {
            let text = json!({"type": "text", "text": "it broke"});
            call.succeed(&json!({"content": [text], "isError": true}));
        })
        .on_tool("hang", |call| {
            tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(call);
            });
        })
}

/// Starts a gateway with these composite tools.
async fn start(backends: &[&McpBackend], tools: Value) -> Gateway {
    gateway_with(backends, &sections(&tools)).await
}

/// Returns the section of these composite tools. JSON is YAML.
fn sections(tools: &Value) -> String {
    format!("compositeTools: {tools}\n")
}

/// Returns a client of each generation, without capabilities.
async fn callers(gateway: &Gateway) -> [Caller; 2] {
    crate::common::both(gateway.url()).await.unwrap()
}

/// Calls a tool that succeeds, and returns its structured content.
async fn output(caller: &mut Caller, tool: &str, arguments: Value) -> Value {
    let result = caller.call(tool, arguments).await.unwrap();
    assert_eq!(result.get("isError"), None, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    let same: Value = serde_json::from_str(text).unwrap();
    assert_eq!(same, result["structuredContent"], "text and structured content differ");
    result["structuredContent"].clone()
}

/// Calls a tool that reports a failure, and returns the text.
async fn failure(caller: &mut Caller, tool: &str, arguments: Value) -> String {
    let result = caller.call(tool, arguments).await.unwrap();
    assert_eq!(result["isError"], true, "{tool}: {result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Returns the arguments of the calls of a tool, in order.
fn calls(backend: &McpBackend, tool: &str) -> Vec<Value> {
    let messages = backend.messages().into_iter();
    let calls = messages.filter(|it| it["method"] == "tools/call" && it["params"]["name"] == tool);
    calls.map(|mut call| call["params"]["arguments"].take()).collect()
}
