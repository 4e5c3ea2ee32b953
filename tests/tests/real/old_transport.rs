//! The deprecated HTTP+SSE transport: a real client and real servers.

use serde_json::{Value, json};
use vmcp_tests::counterparts::{
    Backend, Client, Era, Fixture, Gateway, Heard, OldCall, Plan, old_client, skipped,
};
use vmcp_tests::fixture::Generation;

/// Returns the HTTP+SSE endpoint, a sibling of the MCP endpoint.
fn stream_of(gateway: &Gateway) -> String {
    gateway.url().replace("/mcp", "/sse")
}

fn call(tool: &str, arguments: Value) -> OldCall<'_> {
    OldCall { tool, arguments }
}

/// Runs the client in the eras that it supports over this transport: in one it probes for a stateless server first, in
/// the other it sends `initialize` at once.
async fn run(url: &str, counting: OldCall<'_>, asking: OldCall<'_>) -> Vec<Heard> {
    let mut heard = Vec::new();
    for era in [Era::Legacy, Era::Auto] {
        heard.push(old_client(url, era, &counting, &asking).await.unwrap());
    }
    heard
}

#[tokio::test(flavor = "multi_thread")]
async fn sse_client_lists_calls_and_responds_through_gateway() {
    if skipped() {
        return;
    }
    for generation in [Generation::Stateful, Generation::Stateless] {
        let fixture = Fixture::start(generation).await.unwrap();
        let gateway = Gateway::before(fixture.url()).await.unwrap();
        let counting = call("test_tool_with_progress", json!({}));
        let asking = call("test_elicitation", json!({ "message": "who?" }));
        for heard in run(&stream_of(&gateway), counting, asking).await {
            assert_eq!(heard.protocol, "2025-11-25");
            assert!(heard.tools.iter().any(|tool| tool == "fixture_whoami"), "{heard:?}");
            assert_eq!(heard.progress, [0.0, 50.0, 100.0], "{generation:?}");
            assert_eq!(heard.asked, ["who?"], "{generation:?}");
            assert!(heard.answer.contains("ann@example.com"), "{heard:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sse_client_uses_sse_server_through_gateway() {
    if skipped() {
        return;
    }
    let backend = Backend::asking_sse().await.unwrap();
    let config = format!(
        "name: tests\nincomingAuth: {{type: anonymous}}\nbackends:\n\
         - {{name: old, url: \"{}\", transport: sse}}\n",
        backend.url()
    );
    let gateway = Gateway::start(&config).await.unwrap();
    let asking = call("old_ask", json!({ "message": "who?" }));
    for heard in run(&stream_of(&gateway), call("old_count", json!({})), asking).await {
        assert_eq!(heard.progress, [1.0, 2.0, 3.0]);
        assert_eq!((&*heard.counted, &*heard.answer), ("counted", "accept: ann"));
        assert_eq!(heard.asked, ["who?"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_everything_over_sse_responds_through_gateway() {
    if skipped() {
        return;
    }
    let backend = Backend::everything_sse().await.unwrap();
    let config = format!(
        "name: tests\nincomingAuth: {{type: anonymous}}\nbackends:\n\
         - {{name: old, url: \"{}\", transport: sse}}\n",
        backend.url()
    );
    let gateway = Gateway::start(&config).await.unwrap();
    let arguments = json!({ "message": "hello" }).as_object().cloned().unwrap();
    let plan = Plan { tool: Some("old_echo".to_owned()), arguments, ..Plan::default() };
    for (client, era) in [
        (Client::PythonMcp, Era::Legacy),
        (Client::PythonMcp, Era::Modern),
        (Client::TypeScript1, Era::Legacy),
    ] {
        let seen = client.run(gateway.url(), era, &plan).await.unwrap();
        assert_eq!(seen.call.as_deref(), Some("Echo: hello"), "{client:?} {era:?}");
        assert!(seen.tools.iter().any(|tool| tool == "old_get-sum"), "{client:?} {era:?}");
    }
    let counting = call("old_trigger-long-running-operation", json!({ "duration": 1, "steps": 3 }));
    let echoing = call("old_echo", json!({ "message": "hello" }));
    for heard in run(&stream_of(&gateway), counting, echoing).await {
        assert_eq!(heard.progress, [1.0, 2.0, 3.0]);
        assert_eq!(heard.answer, "Echo: hello");
    }
}
