//! Questions to the user of a session, as server requests.

use serde_json::{Value, json};
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::caller::{Caller, Events};

use super::{backend, calls, start};

/// A workflow that asks before it acts.
pub(super) fn approval() -> Value {
    json!([{
        "name": "approve",
        "parameters": {"type": "object", "properties": {"id": {"type": "integer"}}},
        "steps": [
            {"id": "ask", "type": "elicitation", "message": "Close {{.params.id}}?",
             "schema": {"type": "object", "properties": {"why": {"type": "string", "minLength": 3}},
                "required": ["why"]},
             "onDecline": {"action": "skip_remaining"}, "onCancel": {"action": "continue"},
             "defaultResults": {"content": {}}},
            {"id": "act", "tool": "a.echo", "dependsOn": ["ask"], "arguments": {
                "text": "{{.steps.ask.output.action}} {{if .steps.ask.output.content}}{{.steps.ask.output.content.why}}{{end}}",
            }},
        ],
    }, {
        "name": "strict",
        "steps": [
            {"id": "ask", "type": "elicitation", "message": "Sure?",
             "schema": {"type": "object", "properties": {}}, "timeout": "5s"},
            {"id": "act", "tool": "a.echo", "dependsOn": ["ask"], "arguments": {"text": "acted"}},
        ],
    }])
}

/// Begins a call and returns its stream with the question.
pub(super) async fn ask(caller: &mut Caller, tool: &str) -> (Events, Value) {
    let params = json!({"name": tool, "arguments": {"id": 7}});
    let mut stream = caller.stream("tools/call", params).await.unwrap();
    let question = stream.next().await.unwrap().unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    (stream, question)
}

/// Answers a question and returns the next message of the stream.
pub(super) async fn answer(
    caller: &mut Caller,
    stream: &mut Events,
    id: &Value,
    result: Value,
) -> Value {
    let reply = json!({"jsonrpc": "2.0", "id": id, "result": result});
    assert_eq!(caller.post(&reply).await.unwrap().status, 202);
    stream.next().await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn session_is_asked_until_answer_fits() {
    let a = backend("a", Protocol::Stateless).start();
    let gateway = start(&[&a], approval()).await;
    let capabilities = json!({"elicitation": {}});
    let mut caller = Caller::stateful_with(gateway.url(), capabilities).await.unwrap();
    let (mut stream, question) = ask(&mut caller, "approve").await;
    assert_eq!(question["params"]["message"], "Close 7?");
    assert_eq!(question["params"]["requestedSchema"]["required"], json!(["why"]));
    let wrong = json!({"action": "accept", "content": {"why": "no"}});
    let again = answer(&mut caller, &mut stream, &question["id"], wrong).await;
    assert_eq!(again["method"], "elicitation/create", "{again}");
    let message = again["params"]["message"].as_str().unwrap();
    assert!(message.starts_with("Close 7?") && message.contains("content.why"), "{message}");
    assert_ne!(again["id"], question["id"]);
    let good = json!({"action": "accept", "content": {"why": "done"}});
    let done = answer(&mut caller, &mut stream, &again["id"], good).await;
    assert_eq!(done["result"]["structuredContent"], json!({"text": "accept done"}), "{done}");
    assert_eq!(done["result"].get("resultType"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn decline_and_cancel_act_as_configured() {
    let a = backend("a", Protocol::Stateful).start();
    let gateway = start(&[&a], approval()).await;
    let capabilities = json!({"elicitation": {"form": {}}});
    let mut caller = Caller::stateful_with(gateway.url(), capabilities).await.unwrap();

    let (mut stream, question) = ask(&mut caller, "approve").await;
    let done =
        answer(&mut caller, &mut stream, &question["id"], json!({"action": "decline"})).await;
    let skipped = json!({"action": "decline", "skipped": true});
    assert_eq!(done["result"]["structuredContent"], skipped, "{done}");
    assert_eq!(calls(&a, "echo").len(), 0);

    let (mut stream, question) = ask(&mut caller, "approve").await;
    let done = answer(&mut caller, &mut stream, &question["id"], json!({"action": "cancel"})).await;
    assert_eq!(done["result"]["structuredContent"], json!({"text": "cancel "}), "{done}");

    for action in ["decline", "cancel"] {
        let (mut stream, question) = ask(&mut caller, "strict").await;
        let done =
            answer(&mut caller, &mut stream, &question["id"], json!({"action": action})).await;
        assert_eq!(done["result"]["isError"], true, "{done}");
        assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("the user"));
    }
    assert_eq!(calls(&a, "echo").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn question_fails_for_clients_without_elicitation() {
    let a = backend("a", Protocol::Stateless).start();
    let gateway = start(&[&a], approval()).await;
    for caller in &mut super::callers(&gateway).await {
        let text = super::failure(caller, "approve", json!({"id": 1})).await;
        assert!(text.contains("elicitation"), "{text}");
    }
    assert_eq!(calls(&a, "echo").len(), 0);
}
