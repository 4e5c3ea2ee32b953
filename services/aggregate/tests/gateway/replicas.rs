//! Requests that arrive at another replica than the one with their call, stream or run. Replicas share a key ring and nothing else.

mod fixtures;
mod front;
mod frozen;
mod lost;
mod runs;

use serde_json::{Value, json};
use vmcp_core::Generation;
use vmcp_peer::PeerCounts;

use self::fixtures::{Pair, begin, events, forwards, question, unpeered};
use crate::script::{ScriptedClient, Wire, messages, text};

const STATEFUL: [Wire; 2] = [Wire::Stateful, Wire::Sse];

fn answer() -> Value {
    json!({"action": "accept", "content": {"a": 1}})
}

#[tokio::test]
async fn response_reaches_question_at_other_replica() {
    for wire in STATEFUL {
        let mut pair = Pair::new(wire).await;
        let client = pair.client(Generation::Stateful, "ann").await;
        let (mut events, call) = begin(&mut pair.calls, &client, 1, &question()).await;
        let (_, asked) = events.next().await.unwrap();
        let id = asked["id"].as_str().expect("with peers, ids are strings");
        assert!(id.len() > 100 && id.len() < 256, "{id}");
        let moved = client.clone().on(&pair.second);
        assert_eq!(moved.reply(&asked["id"], answer()).await.status(), 202, "{wire:?}");
        pair.until_answered("q").await;
        assert!(call.answer(&json!({"content": []})));
        assert_eq!(events.next().await.unwrap().1["id"], 1);
        // Only the first response is accepted, and only for a known request.
        assert_eq!(moved.reply(&asked["id"], answer()).await.status(), 400);
        for id in [json!(1), json!("x"), json!(id.replace('.', "")), json!(format!("{id}A"))] {
            assert_eq!(moved.reply(&id, answer()).await.status(), 400, "{id}");
        }
        assert_eq!(forwards(&pair.second, "response"), [2, 0, 0]);
        assert_eq!(forwards(&pair.first, "response"), [0, 0, 0]);
    }
}

#[tokio::test]
async fn response_reaches_question_of_stateless_backend() {
    let mut pair = Pair::new(Wire::Stateless).await;
    let client = pair.client(Generation::Stateful, "ann").await;
    let begun = tokio::spawn({
        let client = client.clone();
        async move { client.call(1, "t").await }
    });
    let requests = json!({"k": {"method": "elicitation/create", "params": question()["params"]}});
    let asked = json!({"resultType": "input_required", "inputRequests": requests});
    pair.calls.recv().await.unwrap().answer(&asked);
    let mut events = events(begun.await.unwrap());
    let (_, asked) = events.next().await.unwrap();
    let moved = client.on(&pair.second);
    assert_eq!(moved.reply(&asked["id"], answer()).await.status(), 202);
    let call = pair.calls.recv().await.unwrap();
    assert_eq!(call.message["params"]["inputResponses"]["k"], answer());
    call.answer(&json!({"content": [], "resultType": "complete"}));
    assert_eq!(events.next().await.unwrap().1["id"], 1);
}

#[tokio::test]
async fn retry_resumes_suspended_call_of_other_replica() {
    for wire in STATEFUL {
        let mut pair = Pair::new(wire).await;
        let client = pair.client(Generation::Stateless, "ann").await;
        let begun = client.begin(1, "t");
        let mut call = pair.calls.recv().await.unwrap();
        assert!(call.say(&question()));
        let said = messages(&begun.await.unwrap()).pop().unwrap();
        assert_eq!(said["result"]["resultType"], "input_required", "{said}");
        let moved = client.clone().on(&pair.second);
        // Another caller gets nothing, and ends nothing.
        let thief = pair.client(Generation::Stateless, "bob").await.on(&pair.second);
        let (status, refused) = retry(&thief, &said).await;
        assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32602)), "{refused}");
        let resumed = tokio::spawn({
            let (moved, said) = (moved.clone(), said.clone());
            async move { retry(&moved, &said).await }
        });
        pair.until_answered("q").await;
        assert!(call.answer(&json!({"content": [{"type": "text", "text": "done"}]})));
        let (status, said_then) = resumed.await.unwrap();
        assert_eq!((status, &said_then["id"]), (200, &json!(2)), "{said_then}");
        assert_eq!(said_then["result"]["content"][0]["text"], "done");
        // The state was used.
        assert_eq!(retry(&moved, &said).await.0, 400);
        assert_eq!(forwards(&pair.second, "suspended_call"), [2, 0, 0]);
    }
}

/// Repeats a request with the answer to its question.
pub(crate) async fn retry(client: &ScriptedClient, said: &Value) -> (u16, Value) {
    let result = &said["result"];
    let requests = result["inputRequests"].as_object().unwrap();
    let responses: serde_json::Map<_, _> =
        requests.keys().map(|key| (key.clone(), answer())).collect();
    let params = json!({"name": "be_t", "arguments": {}, "inputResponses": responses,
        "requestState": result["requestState"], "_meta": {"progressToken": 1}});
    let response = client.request(&json!(2), "tools/call", params).await;
    let status = response.status().as_u16();
    let body = text(response.into_body()).await;
    let message = messages(&body).pop();
    (status, message.unwrap_or_else(|| serde_json::from_str(&body).unwrap()))
}

#[tokio::test]
async fn stream_resumes_at_other_replica() {
    for wire in STATEFUL {
        let mut pair = Pair::new(wire).await;
        let client = pair.client(Generation::Stateful, "ann").await;
        let progress = |at: u64| {
            json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": 1, "progress": at}})
        };
        let (mut events, mut call) = begin(&mut pair.calls, &client, 1, &progress(1)).await;
        let (last, _) = events.next().await.unwrap();
        drop(events);
        assert!(call.say(&progress(2)));
        let moved = client.clone().on(&pair.second);
        let thief = pair.client(Generation::Stateful, "bob").await.on(&pair.second);
        assert_eq!(thief.stand(Some(&last)).await.status(), 400);
        let mut resumed = fixtures::events(moved.stand(Some(&last)).await);
        assert_eq!(resumed.next().await.unwrap().1["params"]["progress"], 2, "{wire:?}");
        assert!(call.answer(&json!({"content": []})));
        assert_eq!(resumed.next().await.unwrap().1["id"], 1);
        assert_eq!(resumed.next().await, None);
        assert_eq!(forwards(&pair.second, "resumption"), [2, 0, 0]);
    }
}

#[tokio::test]
async fn cancellation_reaches_call_at_other_replica() {
    for wire in STATEFUL {
        let mut pair = Pair::new(wire).await;
        let client = pair.client(Generation::Stateful, "ann").await;
        let (mut events, _call) = begin(&mut pair.calls, &client, 1, &question()).await;
        let (_, asked) = events.next().await.unwrap();
        let moved = client.clone().on(&pair.second);
        // The replicas know each other after any message that names one.
        assert_eq!(moved.reply(&asked["id"], answer()).await.status(), 202);
        let thief = pair.client(Generation::Stateful, "bob").await.on(&pair.second);
        let cancelled = json!({"requestId": 1, "reason": "no more"});
        thief.notify("notifications/cancelled", cancelled.clone()).await;
        assert_eq!(pair.backend.cancellations(), [""; 0]);
        assert_eq!(moved.notify("notifications/cancelled", cancelled).await.status(), 202);
        assert_eq!(events.next().await, None, "a cancelled call has no response");
        pair.until(|backend| backend.cancellations() == ["no more"]).await;
        assert_eq!(forwards(&pair.second, "cancellation"), [2, 0, 0]);
    }
}

#[tokio::test]
async fn forwarding_reuses_connections() {
    let mut pair = Pair::new(Wire::Stateful).await;
    let client = pair.client(Generation::Stateful, "ann").await;
    let moved = client.clone().on(&pair.second);
    for id in 1..=10 {
        let (mut events, call) = begin(&mut pair.calls, &client, id, &question()).await;
        let (_, asked) = events.next().await.unwrap();
        assert_eq!(moved.reply(&asked["id"], answer()).await.status(), 202);
        assert!(call.answer(&json!({"content": []})));
        assert_eq!(events.next().await.unwrap().1["id"], id);
    }
    assert_eq!(pair.peers[1].counts(), PeerCounts { outgoing: 1, incoming: 0, known: 1 });
    assert_eq!(pair.peers[0].counts(), PeerCounts { outgoing: 0, incoming: 1, known: 1 });
}

#[tokio::test]
async fn without_peers_ids_name_nothing_elsewhere() {
    let (backend, mut calls, [first, second]) = unpeered(Wire::Stateful).await;
    let mut asked = Vec::new();
    let client = ScriptedClient::new(&first, Generation::Stateful, "ann").await;
    let moved = client.clone().on(&second);
    let mut open = Vec::new();
    for client in [&client, &moved] {
        let (mut events, call) = begin(&mut calls, client, 1, &question()).await;
        let (last, question) = events.next().await.unwrap();
        assert!(question["id"].as_u64().unwrap() < 1 << 53);
        asked.push((last, question["id"].clone()));
        open.push((events, call));
    }
    assert_ne!(asked[0], asked[1]);
    // Each replica has a pending request and a stream in its place.
    assert_eq!(moved.reply(&asked[0].1, answer()).await.status(), 400);
    assert_eq!(moved.stand(Some(&asked[0].0)).await.status(), 400);
    assert!(!backend.has_answer("q"));
    assert_eq!(client.reply(&asked[0].1, answer()).await.status(), 202);
    assert!(first.forward_counts().is_empty());
}
