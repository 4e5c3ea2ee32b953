//! Tool search over sockets, for the clients of both generations.

mod arguments;
mod audit;
mod embedding_service;
mod exposure;
mod metrics;
mod permissions;
mod settings;

use serde_json::{Value, json};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::{McpBackendBuilder, Protocol};
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::Gateway;

use crate::common::{both, gateway_with, until};

/// Name and description of each tool of [`backend`].
const TOOLS: [(&str, &str); 6] = [
    ("create_ticket", "Opens a ticket in a repository"),
    ("search_code", "Searches source code for a text"),
    ("get_forecast", "Weather of the next days in a city"),
    ("get_alerts", "Storm warnings of a region"),
    ("write_file", "Writes text to a file"),
    ("send_mail", "Sends a message to an address"),
];

/// Returns the definition of a tool.
fn definition(name: &str, description: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    json!({"name": name, "description": description, "inputSchema": schema})
}

/// Returns a builder of a backend whose tools return their arguments as structured content.
fn backend(name: &str, tools: &[(&str, &str)]) -> McpBackendBuilder {
    let items = tools.iter().map(|(name, description)| definition(name, description).to_string());
    let builder = McpBackend::builder(Protocol::Both)
        .name(name)
        .capabilities(json!({"tools": {"listChanged": true}}))
        .notification_streams()
        .items("tools", items);
    tools.iter().fold(builder, |builder, (name, _)| {
        builder.on_tool(name, |call| {
            let arguments = call.params()["arguments"].clone();
            call.succeed(&json!({"content": [], "structuredContent": arguments}));
        })
    })
}

/// Starts a gateway with this optimizer section. JSON is YAML.
async fn start(backends: &[&McpBackend], optimizer: Value) -> Gateway {
    gateway_with(backends, &format!("optimizer: {optimizer}\n")).await
}

/// Returns the structured content of `find_tool`.
async fn find(caller: &mut Caller, description: &str) -> Value {
    let result = caller.call("find_tool", json!({"tool_description": description})).await.unwrap();
    let text = result["content"][0]["text"].as_str().unwrap();
    let same: Value = serde_json::from_str(text).unwrap();
    assert_eq!(same, result["structuredContent"], "text and structured content differ");
    result["structuredContent"].clone()
}

/// Returns the names of the tools that `find_tool` returns, best first.
async fn found(caller: &mut Caller, description: &str) -> Vec<String> {
    let content = find(caller, description).await;
    names(&content)
}

/// Returns the names in a result of `find_tool`.
fn names(content: &Value) -> Vec<String> {
    let tools = content["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns the arguments of a call of `tool` by `call_tool`.
fn forwarded(tool: &str, parameters: Value) -> Value {
    let mut arguments = json!({"tool_name": tool});
    arguments["parameters"] = parameters;
    arguments
}

/// Polls until searches have this mode, and returns the last result.
async fn until_mode(caller: &mut Caller, description: &str, mode: &str) -> Value {
    let mut last = Value::Null;
    until(&format!("mode {mode}"), async || {
        last = find(caller, description).await;
        last["search"]["mode"] == mode
    })
    .await;
    last
}

/// Returns a client of each generation.
async fn callers(gateway: &Gateway) -> [Caller; 2] {
    both(gateway.url()).await.unwrap()
}
