//! Calls and names of composite tools.

use super::*;

fn one_step(name: &str) -> Value {
    json!([{"name": name, "steps": [{"id": "s", "tool": "be.t"}]}])
}

#[tokio::test(start_paused = true)]
async fn rejects_answers_without_state() {
    let mut scene = scene(Generation::Stateless, Wire::Stateful, &one_step("one")).await;
    let params = json!({"name": "one", "arguments": {}, "inputResponses": {
        "q": {"action": "accept", "content": {}},
    }});
    let response = scene.client.request(&json!(1), "tools/call", params).await;
    assert_eq!(response.status(), 400);
    let answer = messages(&text(response.into_body()).await).pop().unwrap();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(answer["error"]["message"].to_string().contains("params.requestState"), "{answer}");
    assert_eq!(scene.received().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn unreadable_answer_names_its_member() {
    let asks = json!([{"name": "asks", "steps": [{"id": "q", "type": "elicitation", "message": "Sure?",
        "schema": {"type": "object", "properties": {"n": {"type": "number"}}}}]}]);
    let scene = scene(Generation::Stateless, Wire::Stateful, &asks).await;
    let asked = scene.begin(1, "asks").await.unwrap().pop().unwrap();
    let state = asked["result"]["requestState"].clone();
    for (answers, expected) in [
        ("[1]", "params.inputResponses must be an object"),
        (
            r#"{"q": {"action": "accept", "content": {"n": 1e400}}}"#,
            "params.inputResponses.q: number out of range",
        ),
    ] {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        });
        let params = json!({"name": "asks", "arguments": {}, "requestState": state, "_meta": meta});
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let with_answers = format!("\"params\":{{\"inputResponses\":{answers},");
        let message = message.to_string().replace("\"params\":{", &with_answers);
        let response = scene.client.post_text(message).await;
        let answer = messages(&text(response.into_body()).await).pop().unwrap();
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(expected), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn conflict_names_setting_of_composite_tool() {
    let scene = scene(Generation::Stateful, Wire::Stateful, &one_step("be_t")).await;
    let conflicts = scene.gateway.report().conflicts;
    let [conflict] = &conflicts[..] else { panic!("one conflict: {conflicts:?}") };
    assert_eq!(conflict.name, "be_t");
    assert_eq!(
        conflict.resolution,
        "the backend's tool has it: give the composite tool another name in compositeTools[].name"
    );
}

#[tokio::test(start_paused = true)]
async fn step_carries_metadata_of_stateless_client() {
    let mut scene = scene(Generation::Stateless, Wire::Stateless, &one_step("one")).await;
    let client = scene.client.clone();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        "example/tenant": "t1",
        "vmcp.dev/stepKey": "forged",
    });
    let params = json!({"name": "one", "arguments": {}, "_meta": meta});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let called = tokio::spawn(async move { client.post(&message).await });
    let call = scene.received().await.pop().unwrap();
    let sent = scene.backend.messages("tools/call").pop().unwrap();
    let meta = sent["params"]["_meta"].as_object().unwrap();
    assert_eq!(meta["example/tenant"], "t1", "{sent}");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}), "{sent}");
    let key = meta["vmcp.dev/stepKey"].as_str().unwrap();
    assert!(key.ends_with("/s"), "{key}");
    assert!(call.answer(&done()));
    assert_eq!(called.await.unwrap().status(), 200);
}
