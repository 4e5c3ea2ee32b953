//! Composite tools as tasks of stateless clients.

use std::time::Duration;

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use tokio::time::Instant;
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::authority::Authority;
use vmcp_tests::caller::{Caller, Line};
use vmcp_tests::counterparts::Gateway;

use super::{PROTOCOLS, backend, calls, sections};
use crate::common::{config, gateway_with, ready, until, until_ready};

const AUDIENCE: &str = "http://localhost/mcp";

fn capabilities() -> Value {
    json!({"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// Two questions at once, then a call with both answers.
fn tools() -> Value {
    let question = |id: &str| {
        json!({"id": id, "type": "elicitation", "message": format!("{id}?"),
            "schema": {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}})
    };
    json!([
        {"name": "asks", "steps": [question("one"), question("two"),
            {"id": "end", "tool": "a.echo", "dependsOn": ["one", "two"], "arguments": {
                "text": "{{.steps.one.output.content.n}} {{.steps.two.output.content.n}}"}}]},
        {"name": "echoes", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
         "steps": [{"id": "echo", "tool": "a.echo", "arguments": {"text": "{{.params.text}}"}}]},
        {"name": "hangs", "steps": [{"id": "s", "tool": "a.hang"}]},
    ])
}

async fn begin(caller: &mut Caller, tool: &str, arguments: Value) -> Value {
    let created = caller.call(tool, arguments).await.unwrap();
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
    created["taskId"].clone()
}

/// Waits until a task has this status.
async fn get(caller: &mut Caller, id: &Value, status: &str) -> Value {
    let mut state = Value::Null;
    until(status, async || {
        state = caller.result("tasks/get", json!({"taskId": id})).await.unwrap();
        state["status"] == status
    })
    .await;
    assert_eq!((&state["taskId"], &state["resultType"]), (id, &json!("complete")));
    state
}

async fn answer(caller: &mut Caller, id: &Value, step: &str) -> Value {
    let answers = json!({step: {"action": "accept", "content": {"n": step}}});
    let params = json!({"taskId": id, "inputResponses": answers});
    caller.ask("tasks/update", params).await.unwrap()
}

/// Returns the status of the only run of a user.
async fn run_status(gateway: &Gateway, token: &str) -> Value {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    let mut line = Line::to(gateway.url());
    let reply = line.send(Method::GET, "/api/workflows", &headers, "").await.unwrap();
    let list = reply.message().unwrap();
    assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{list}");
    list["runs"][0]["status"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn user_answers_task_on_other_connections() {
    let a = backend("a", Protocol::Stateless).start();
    let authority = Authority::start().unwrap();
    let yaml = config([("a", a.url())], &sections(&tools()));
    let section = authority.section(AUDIENCE);
    let gateway = ready(&yaml.replace("incomingAuth: {type: anonymous}\n", &section)).await;
    let [ann, bob] = ["ann", "bob"].map(|user| authority.token(user, AUDIENCE, 1));
    let caller = |token: &str| {
        let mut caller = Caller::stateless_with(gateway.url(), capabilities());
        caller.comes_with(token);
        caller
    };
    let id = begin(&mut caller(&ann), "asks", json!({})).await;
    let asks = get(&mut caller(&ann), &id, "input_required").await;
    assert_eq!(asks["inputRequests"].as_object().unwrap().len(), 2, "{asks}");
    assert_eq!(run_status(&gateway, &ann).await, "input_required");
    for method in ["tasks/get", "tasks/cancel"] {
        let refused = caller(&bob).ask(method, json!({"taskId": id})).await.unwrap();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let acknowledged = answer(&mut caller(&ann), &id, "one").await;
    assert_eq!(acknowledged["result"], json!({"resultType": "complete"}), "{acknowledged}");
    let asks = get(&mut caller(&ann), &id, "input_required").await;
    assert_eq!(asks["inputRequests"].as_object().unwrap().len(), 1, "{asks}");
    assert_eq!(answer(&mut caller(&bob), &id, "two").await["error"]["code"], -32602);
    answer(&mut caller(&ann), &id, "two").await;
    let done = get(&mut caller(&ann), &id, "completed").await;
    assert_eq!(done["result"]["structuredContent"], json!({"text": "one two"}), "{done}");
    assert_eq!(run_status(&gateway, &ann).await, "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_task_cancels_call_of_step() {
    for protocol in PROTOCOLS {
        let a = backend("a", protocol).start();
        let gateway = gateway_with(&[&a], &sections(&tools())).await;
        let mut caller = Caller::stateless_with(gateway.url(), capabilities());
        let id = begin(&mut caller, "hangs", json!({})).await;
        until("the step runs", async || calls(&a, "hang").len() == 1).await;
        let working = get(&mut caller, &id, "working").await;
        assert_eq!(working["statusMessage"], "running step s");
        caller.result("tasks/cancel", json!({"taskId": id})).await.unwrap();
        get(&mut caller, &id, "cancelled").await;
        if protocol == Protocol::Stateful {
            let what = "the backend learns of the cancellation";
            until(what, async || a.count("notifications/cancelled") == 1).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_tool_of_search_creates_task() {
    let a = backend("a", Protocol::Both).start();
    let yaml = format!("{}optimizer: {{}}\n", sections(&tools()));
    let gateway = gateway_with(&[&a], &yaml).await;
    let mut caller = Caller::stateless_with(gateway.url(), capabilities());
    let arguments = json!({"tool_name": "echoes", "parameters": {"text": "found"}});
    let id = begin(&mut caller, "call_tool", arguments).await;
    let done = get(&mut caller, &id, "completed").await;
    assert_eq!(done["result"]["structuredContent"], json!({"text": "found"}), "{done}");
}

#[tokio::test(flavor = "multi_thread")]
async fn running_task_delays_shutdown_by_drain_time() {
    let a = backend("a", Protocol::Stateless).start();
    let yaml = config([("a", a.url())], &sections(&tools()));
    let mut gateway = Gateway::start_with(&yaml, &["--drain", "1s"]).await.unwrap();
    until_ready(&gateway).await;
    let mut caller = Caller::stateless_with(gateway.url(), capabilities());
    begin(&mut caller, "hangs", json!({})).await;
    until("the step runs", async || calls(&a, "hang").len() == 1).await;
    drop(caller);
    let stopped = Instant::now();
    gateway.signal("TERM").await.unwrap();
    let ended = tokio::time::timeout(crate::common::SOON, gateway.end()).await.unwrap();
    assert!(ended.unwrap().success(), "{}", gateway.log());
    assert!(stopped.elapsed() >= Duration::from_secs(1), "the task had no time to end");
}
