//! Extensions declared by clients, and their visibility to backends.

use serde_json::{Value, json};
use vmcp_core::Generation;

use crate::fake::{Client, FakeBackend, gateway};

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const TASKS: &str = "io.modelcontextprotocol/tasks";
const UI: &str = "io.modelcontextprotocol/ui";

fn declared() -> Value {
    json!({
        "elicitation": {},
        "tasks": {"list": {}, "requests": {"elicitation": {"create": {}}}},
        "extensions": {TASKS: {}, UI: {"mimeTypes": ["a/b"]}, "com.example/x": {}},
    })
}

/// Returns the parameters of the last request with this method by this caller.
fn last(fake: &FakeBackend, method: &str, by: &str) -> Value {
    let heard = fake.heard.lock().unwrap();
    let mut heard = heard.iter().rev();
    let found = heard.find(|(who, said, _)| said == method && who == by);
    found.unwrap_or_else(|| panic!("{method} by {by}")).2.clone()
}

#[tokio::test(start_paused = true)]
async fn strips_unbridged_extensions() {
    for (client, backend) in BOTH.into_iter().flat_map(|one| BOTH.map(|other| (one, other))) {
        let fake = FakeBackend::new("be", backend).offer("*", json!({"tools": [{"name": "red"}]}));
        let gateway = gateway(std::slice::from_ref(&fake)).await;
        let caller = Client::declaring(&gateway, client, "", declared()).await;
        assert_eq!(caller.call("be_red").await.as_deref(), Some("be:nobody"));
        let learned = match backend {
            Generation::Stateful => last(&fake, "initialize", "nobody")["capabilities"].clone(),
            Generation::Stateless => {
                last(&fake, "tools/call", "nobody")["_meta"][CAPABILITIES].clone()
            }
        };
        let mut expected = json!({"elicitation": {}, "extensions": {UI: {"mimeTypes": ["a/b"]}}});
        if (client, backend) == (Generation::Stateless, Generation::Stateless) {
            expected["extensions"][TASKS] = json!({});
        }
        assert_eq!(learned, expected, "{client:?} {backend:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn strips_requests_of_sessions() {
    for backend in BOTH {
        let fake = FakeBackend::new("be", backend).offer("*", json!({"tools": [{"name": "red"}]}));
        let gateway = gateway(std::slice::from_ref(&fake)).await;
        let client = Client::new(&gateway, Generation::Stateful, "").await;
        let meta = json!({CAPABILITIES: declared(), "progressToken": 7});
        client.ask("tools/call", json!({"name": "be_red", "_meta": meta})).await;
        let learned = last(&fake, "tools/call", "nobody")["_meta"].clone();
        let expected = match backend {
            Generation::Stateful => {
                json!({"elicitation": {}, "extensions": {UI: {"mimeTypes": ["a/b"]}}})
            }
            // The capabilities of the session apply.
            Generation::Stateless => json!({}),
        };
        assert_eq!(learned[CAPABILITIES], expected, "{backend:?}");
        assert_eq!(learned["progressToken"], 7);
    }
}

#[tokio::test(start_paused = true)]
async fn strips_task_parameter_for_stateful_backends() {
    let offer = json!({"tools": [{"name": "red", "execution": {"taskSupport": "optional"}}]});
    for client in BOTH {
        let fake = FakeBackend::new("be", Generation::Stateful).offer("*", offer.clone());
        let gateway = gateway(std::slice::from_ref(&fake)).await;
        let caller = Client::declaring(&gateway, client, "", declared()).await;
        let call = json!({"name": "be_red", "task": {"ttl": 1}, "arguments": {"task": 2}});
        let said = caller.ask("tools/call", call).await;
        assert_eq!(said.status, 200, "{said:?}");
        let learned = last(&fake, "tools/call", "nobody");
        assert_eq!((&learned["task"], &learned["arguments"]["task"]), (&Value::Null, &json!(2)));
        assert_eq!(learned["name"], "red");
    }
}

#[tokio::test(start_paused = true)]
async fn observer_declares_user_interfaces() {
    let interfaces = json!({"mimeTypes": ["text/html;profile=mcp-app"]});
    for backend in BOTH {
        let fake = FakeBackend::new("be", backend).offer("*", json!({}));
        let _gateway = gateway(std::slice::from_ref(&fake)).await;
        let declared = match backend {
            Generation::Stateful => last(&fake, "initialize", "gateway")["capabilities"].clone(),
            Generation::Stateless => {
                last(&fake, "tools/list", "gateway")["_meta"][CAPABILITIES].clone()
            }
        };
        assert_eq!(declared["extensions"], json!({UI: interfaces}), "{backend:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn declares_only_bridged_extensions() {
    let fake = FakeBackend::new("be", Generation::Stateful).offer("*", json!({}));
    let gateway = gateway(&[fake]).await;
    let client = Client::new(&gateway, Generation::Stateless, "").await;
    let discovered = client.ask("server/discover", json!({})).await.json();
    let capabilities = &discovered["result"]["capabilities"];
    assert_eq!(capabilities["extensions"], json!({TASKS: {}, UI: {}}));
    assert_eq!(capabilities["tasks"], Value::Null);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                       "clientInfo": {"name": "c", "version": "1"}});
    let client = Client::new(&gateway, Generation::Stateful, "").await;
    let met = client.ask("initialize", hello).await.json();
    let capabilities = &met["result"]["capabilities"];
    assert_eq!(capabilities["extensions"], json!({UI: {}}));
    assert_eq!((&capabilities["tasks"], &capabilities["logging"]), (&Value::Null, &json!({})));
}
