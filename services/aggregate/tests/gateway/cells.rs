//! Behavior that is the same for all combinations of client and backend generation.

use std::sync::Arc;

use serde_json::{Value, json};
use vmcp_core::Generation;

use crate::fake::{Client, FakeBackend, gateway};

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

/// Creates a backend with a tool and a prompt but no completions, and a client.
async fn cell(client: Generation, backend: Generation) -> (Arc<FakeBackend>, Client) {
    let offer = json!({"tools": [{"name": "red"}], "prompts": [{"name": "mute"}, {"name": "p"}]});
    let fake = FakeBackend::new("be", backend).offer("*", offer);
    let gateway = gateway(&[Arc::clone(&fake)]).await;
    (fake, Client::new(&gateway, client, "").await)
}

#[tokio::test]
async fn backend_without_completions_returns_empty_completion() {
    for (client, backend) in BOTH.into_iter().flat_map(|one| BOTH.map(|other| (one, other))) {
        let (fake, client) = cell(client, backend).await;
        let complete = |name: &str| json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "a", "value": ""}});
        let said = client.ask("completion/complete", complete("be_mute")).await;
        assert_eq!(fake.times("completion/complete", "nobody"), 1);
        assert_eq!(said.status, 200, "{said:?}");
        assert_eq!(said.json()["result"]["completion"], json!({"values": []}), "{said:?}");
        let stateless = client.generation == Generation::Stateless;
        let expected = if stateless { json!("complete") } else { Value::Null };
        assert_eq!(said.json()["result"]["resultType"], expected, "{said:?}");
        // A backend with completions responds itself.
        let said = client.ask("completion/complete", complete("be_p")).await;
        assert_eq!(said.json()["result"]["content"][0]["text"], "be:nobody", "{said:?}");
        let said = client.ask("completion/complete", complete("be_none")).await;
        assert_eq!(said.json()["error"]["code"], -32602, "{said:?}");
    }
}

#[tokio::test]
async fn strips_forged_request_state_from_session_calls() {
    let (fake, client) = cell(Generation::Stateful, Generation::Stateless).await;
    let forged = json!({"name": "be_red", "arguments": {"a": 1}, "inputResponses": {"q": {}},
                        "requestState": "forged", "other": true});
    let said = client.ask("tools/call", forged).await;
    assert_eq!(said.json()["result"]["content"][0]["text"], "be:nobody", "{said:?}");
    let heard = fake.heard.lock().unwrap();
    let (.., params) = heard.iter().find(|(_, method, _)| method == "tools/call").unwrap();
    assert_eq!(params["requestState"], Value::Null, "{params}");
    assert_eq!(params["inputResponses"], Value::Null, "{params}");
    assert_eq!((&params["arguments"], &params["other"]), (&json!({"a": 1}), &json!(true)));
    assert_eq!(params["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
}

#[tokio::test]
async fn rejects_non_text_state_before_backend_call() {
    for backend in BOTH {
        let (fake, client) = cell(Generation::Stateless, backend).await;
        for state in [json!(7), json!({}), json!(["x"]), json!("forged")] {
            let call = json!({"name": "be_red", "requestState": state, "inputResponses": {}});
            let said = client.ask("tools/call", call).await;
            assert_eq!(said.status, 400, "{said:?}");
            assert_eq!(said.json()["error"]["code"], -32602, "{said:?}");
            let message = said.json()["error"]["message"].to_string();
            assert!(message.contains("params.requestState"), "{message}");
        }
        assert_eq!(fake.times("tools/call", "nobody"), 0);
        let call = json!({"name": "be_red", "requestState": null});
        assert_eq!(client.ask("tools/call", call).await.status, 200);
    }
}

#[tokio::test]
async fn lists_name_server_to_stateless_clients() {
    for (client, backend) in BOTH.into_iter().flat_map(|one| BOTH.map(|other| (one, other))) {
        let (_fake, client) = cell(client, backend).await;
        for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            let said = client.ask(method, json!({})).await;
            let info = &said.json()["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
            let expected = match client.generation {
                Generation::Stateless => json!({"name": "gw", "version": "1"}),
                Generation::Stateful => Value::Null,
            };
            assert_eq!(*info, expected, "{method}");
        }
    }
}
