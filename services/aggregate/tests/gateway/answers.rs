//! Responses and server requests that violate the protocol.

use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use vmcp_aggregate::settings::PartialFailure;
use vmcp_core::{Body, Generation};

use crate::fake::with;
use crate::script::{ScriptedBackend, ScriptedClient, Wire, messages, text};

const CELLS: [(Generation, Wire); 4] = [
    (Generation::Stateful, Wire::Stateful),
    (Generation::Stateful, Wire::Stateless),
    (Generation::Stateless, Wire::Stateful),
    (Generation::Stateless, Wire::Stateless),
];

/// Returns the response to a client whose backend responds with this member instead of `result`.
async fn answered(client: Generation, wire: Wire, outcome: &str) -> Value {
    let (backend, mut calls) = ScriptedBackend::new("be", wire);
    let gateway = with(vec![backend.settings(None)], PartialFailure::BestEffort).await;
    let client = ScriptedClient::new(&gateway, client, "alice").await;
    let call = client.begin(7, "t");
    let pending = calls.recv().await.unwrap();
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},{outcome}}}"#, pending.message["id"]);
    pending.respond(200, "application/json", Body::from(Bytes::from(answer)));
    let said = call.await.unwrap();
    serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{wire:?} {outcome}: {error}: {said}"))
}

#[tokio::test(start_paused = true)]
async fn rejects_results_that_are_not_objects() {
    for (client, wire) in CELLS {
        for result in ["null", "\"hi\"", "[1]", "7", "true"] {
            let said = answered(client, wire, &format!(r#""result":{result}"#)).await;
            assert_eq!(said["id"], 7, "{client:?} {wire:?} {said}");
            let message = said["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains("a result that is not an object"), "{wire:?} {said}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn errors_without_code_or_message_are_replaced() {
    let broken = [
        r#""bad""#,
        "{}",
        r#"{"code":"E1","message":"x"}"#,
        r#"{"code":1,"message":5}"#,
        r#"{"code":1e400,"message":"x"}"#,
        r#"{"code":-32000}"#,
    ];
    for (client, wire) in CELLS {
        for error in broken {
            let said = answered(client, wire, &format!(r#""error":{error}"#)).await;
            assert_eq!(said["id"], 7, "{client:?} {wire:?} {said}");
            assert!(said["error"]["code"].is_i64(), "{client:?} {wire:?} {error}: {said}");
            let message = said["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains("without a code and a message"), "{wire:?} {error}: {said}");
        }
        let said = answered(client, wire, r#""error":{"code":-32000,"message":"mine"}"#).await;
        assert_eq!(said["error"]["message"], "mine");
    }
}

#[tokio::test(start_paused = true)]
async fn undeclared_server_requests_never_reach_session_clients() {
    for wire in [Wire::Stateful, Wire::Sse] {
        let (backend, mut calls) = ScriptedBackend::new("be", wire);
        let gateway = with(vec![backend.settings(None)], PartialFailure::BestEffort).await;
        let client = ScriptedClient::new(&gateway, Generation::Stateful, "alice").await;
        let call = client.begin(7, "t");
        let mut pending = calls.recv().await.unwrap();
        let params = json!({"messages": [], "maxTokens": 1});
        let question = json!({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage",
            "params": params});
        pending.say(&question);
        while !backend.has_answer("q") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        pending.answer(&json!({"content": []}));
        let said = call.await.unwrap();
        assert!(!said.contains("sampling"), "{wire:?}: {said}");
        assert!(said.contains("content"), "{wire:?}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn undeclared_server_requests_end_stateless_calls() {
    let (backend, mut calls) = ScriptedBackend::new("be", Wire::Stateless);
    let gateway = with(vec![backend.settings(None)], PartialFailure::BestEffort).await;
    let client = ScriptedClient::new(&gateway, Generation::Stateless, "alice").await;
    for streams in [false, true] {
        let call = client.clone();
        let call = tokio::spawn(async move {
            let response = call.call(7, "t").await;
            (response.status().as_u16(), text(response.into_body()).await)
        });
        let mut pending = calls.recv().await.unwrap();
        if streams {
            let progress = json!({"progressToken": pending.message["params"]["_meta"]["progressToken"],
                "progress": 1});
            let method = "notifications/progress";
            pending.say(&json!({"jsonrpc": "2.0", "method": method, "params": progress}));
        }
        let questions = json!({"q": {"method": "sampling/createMessage",
            "params": {"messages": [], "maxTokens": 1}}});
        pending.answer(&json!({"resultType": "input_required", "inputRequests": questions}));
        let (status, said) = call.await.unwrap();
        assert_eq!(status, if streams { 200 } else { 400 });
        let said = match messages(&said).pop() {
            Some(last) => last,
            None => serde_json::from_str(&said).unwrap(),
        };
        assert_eq!(said["error"]["code"], -32021, "{said}");
        assert_eq!(said["error"]["data"]["requiredCapabilities"], json!({"sampling": {}}));
    }
}

#[tokio::test(start_paused = true)]
async fn routes_server_requests_to_originating_calls() {
    for wire in [Wire::Stateful, Wire::Sse] {
        let (backend, mut calls) = ScriptedBackend::new("be", wire);
        let gateway = with(vec![backend.settings(None)], PartialFailure::BestEffort).await;
        // All anonymous callers share one identity.
        let one = ScriptedClient::new(&gateway, Generation::Stateless, "alice").await;
        let two = one.clone();
        let first = one.begin(1, "t");
        let mut asking = calls.recv().await.unwrap();
        let second = two.begin(2, "t");
        let other = calls.recv().await.unwrap();
        asking.say(&json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params":
            {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}}));
        let asked = first.await.unwrap();
        assert!(asked.contains("input_required"), "{wire:?}: {asked}");
        other.answer(&json!({"content": []}));
        let answered = second.await.unwrap();
        assert!(
            answered.contains("content") && !answered.contains("sure?"),
            "{wire:?}: {answered}"
        );
        // An idle session is reused.
        let sessions = backend.open_sessions();
        let third = two.begin(3, "t");
        calls.recv().await.unwrap().answer(&json!({"content": []}));
        third.await.unwrap();
        assert_eq!(backend.open_sessions(), sessions, "{wire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn drops_updates_of_other_backends_resources() {
    let (own, _calls) = ScriptedBackend::new("be", Wire::Stateful);
    let (other, _others) = ScriptedBackend::new("ot", Wire::Stateful);
    let settings = vec![own.settings(None), other.settings(None)];
    let gateway = with(settings, PartialFailure::BestEffort).await;
    let client = ScriptedClient::new(&gateway, Generation::Stateful, "alice").await;
    for (id, uri) in ["x://be", "x://ot"].into_iter().enumerate() {
        client.request(&json!(id), "resources/subscribe", json!({"uri": uri})).await;
    }
    let mut stream = client.stand(None).await.into_body();
    let update = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
        "params": {"uri": "x://be"}});
    for (backend, is_heard) in [(&other, false), (&own, true)] {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        backend.announce(&update);
        let mut said = String::new();
        let reading = async {
            while let Some(Ok(frame)) = stream.frame().await {
                said += &String::from_utf8_lossy(&frame.into_data().unwrap_or_default());
            }
        };
        _ = tokio::time::timeout(std::time::Duration::from_secs(2), reading).await;
        assert_eq!(said.contains("x://be"), is_heard, "{said}");
    }
}
