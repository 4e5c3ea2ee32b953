//! Audit events of searches and calls.

use std::path::Path;

use serde_json::{Value, json};

use super::{TOOLS, backend, callers, find, forwarded};
use crate::common::{gateway_with, until};

/// Returns the events of tool calls in a file.
fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["type"] == "mcp_tool_call").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_calls_as_those_of_tools_behind() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("tool-search-audit-{}.log", std::process::id()));
    let a = backend("a", &TOOLS).start();
    let audit = json!({"enabled": true, "logFile": path, "includeRequestData": true});
    let gateway = gateway_with(&[&a], &format!("optimizer: {{}}\naudit: {audit}\n")).await;
    for caller in &mut callers(&gateway).await {
        let before = events(&path).len();
        find(caller, "write a file").await;
        caller.call("call_tool", forwarded("a_write_file", json!({"text": "x"}))).await.unwrap();
        let params = json!({"name": "call_tool", "arguments": forwarded("a_missing", json!({}))});
        caller.ask("tools/call", params).await.unwrap();
        until("the events are written", async || events(&path).len() >= before + 3).await;
        let events = events(&path).split_off(before);
        let named = |name: &str| {
            let event = events.iter().find(|event| event["target"]["name"] == name);
            event.unwrap_or_else(|| panic!("no event of {name}: {events:?}"))
        };
        let found = named("find_tool");
        assert_eq!(
            (&found["type"], &found["outcome"]),
            (&json!("mcp_tool_call"), &json!("success"))
        );
        let called = named("a_write_file");
        assert_eq!(
            (&called["type"], &called["outcome"]),
            (&json!("mcp_tool_call"), &json!("success"))
        );
        assert_eq!(called["metadata"]["extra"]["backend_name"], "a", "{called}");
        assert_ne!(named("a_missing")["outcome"], "success");
        assert!(events.iter().all(|event| event["target"]["name"] != "call_tool"), "{events:?}");
    }
    _ = std::fs::remove_file(&path);
}
