//! Which tool a step names.

use std::sync::Arc;

use serde_json::json;
use vmcp_aggregate::settings::{Conflicts, Limits};
use vmcp_aggregate::status::HiddenReason;
use vmcp_core::Generation;

use crate::composites::settings;
use crate::fake::{Client, FakeBackend, begin};

fn backend(name: &'static str, tools: &[&str]) -> Arc<FakeBackend> {
    let tools: Vec<_> = tools.iter().map(|tool| json!({"name": tool})).collect();
    FakeBackend::new(name, Generation::Stateless).offer("*", json!({"tools": tools}))
}

/// Calls the composite tool `pay`, whose only step names `tool`. Returns the text of the called backend, and the reason why
/// the tool is hidden.
async fn call(
    backends: &[Arc<FakeBackend>],
    conflicts: Conflicts,
    tool: &str,
) -> (Option<String>, Option<HiddenReason>) {
    let definitions = json!([{"name": "pay", "steps": [{"id": "x", "tool": tool}]}]);
    let parts = backends.iter().map(FakeBackend::settings).collect();
    let mut settings = settings(parts, &definitions);
    settings.rules.conflicts = conflicts;
    let gateway = begin(settings, Limits::default()).await;
    let client = Client::new(&gateway, Generation::Stateless, "ann").await;
    let entries = gateway.report().entries;
    let entry = entries.into_iter().find(|entry| entry.name == "pay").unwrap();
    let result = client.ask("tools/call", json!({"name": "pay", "arguments": {}})).await.json();
    let text = result["result"]["structuredContent"]["text"].as_str().map(str::to_owned);
    (text, entry.hidden_reason)
}

fn priority(order: &[&str]) -> Conflicts {
    Conflicts::Priority(order.iter().map(|name| (*name).to_owned()).collect())
}

#[tokio::test(start_paused = true)]
async fn step_reaches_no_backend_but_its_own() {
    let missing = |tool: &str| (None, Some(HiddenReason::MissingTools(vec![tool.to_owned()])));
    let thief = || backend("b", &["a.echo", "echo"]);
    let (own, none) = (backend("a", &["echo"]), backend("a", &[]));
    let order = ["b", "a"];
    assert_eq!(call(&[none, thief()], priority(&order), "a.echo").await, missing("a.echo"));
    // The names of both fit: the longer one is the workload, also while its tool is missing.
    let (short, long) = (backend("a", &["b.echo"]), backend("a.b", &[]));
    let prefix = Conflicts::Prefix("{workload}_".to_owned());
    assert_eq!(call(&[short, long], prefix, "a.b.echo").await, missing("a.b.echo"));
    // A tool that lost its name has no route, which the status says.
    let lost = Some(HiddenReason::ToolNamesTaken(vec!["a.echo".to_owned()]));
    assert_eq!(call(&[own, thief()], priority(&order), "a.echo").await, (None, lost));
}

#[tokio::test(start_paused = true)]
async fn step_calls_tool_of_its_workload() {
    for tool in ["a.echo", "a_echo"] {
        let backends = [backend("a", &["echo"]), backend("b", &["echo"])];
        let prefix = Conflicts::Prefix("{workload}_".to_owned());
        let (text, hidden) = call(&backends, prefix, tool).await;
        assert_eq!((text.as_deref(), hidden), (Some("a:ann"), None), "{tool}");
    }
}
