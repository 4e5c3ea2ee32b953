//! Requests that belong to a replica which does not respond for a while. The clock is paused then.

use http::Response;
use serde_json::{Value, json};
use tokio::time::{Instant, pause, resume};
use vmcp_core::{Body, Generation};

use super::fixtures::{Events, Pair, begin, events, forwards, question};
use super::{STATEFUL, answer, retry};
use crate::script::{PendingCall, ScriptedClient, Wire, messages, text};

const SENT: &str = "it may have processed it";
const NOT_SENT: &str = "nothing was sent to it";

impl Pair {
    /// Opens a connection of the second replica to the first.
    async fn connect(&mut self) {
        let client = self.client(Generation::Stateful, "ann").await;
        let (mut events, call) = begin(&mut self.calls, &client, 1, &question()).await;
        let (_, asked) = events.next().await.unwrap();
        let moved = client.on(&self.second);
        assert_eq!(moved.reply(&asked["id"], answer()).await.status(), 202);
        assert!(call.answer(&json!({"content": []})));
        events.next().await.unwrap();
        assert_eq!(self.peers[1].counts().outgoing, 1);
    }

    /// Begins a call that asks its user. Returns the id of the event and the question.
    async fn ask(&mut self, client: &ScriptedClient) -> (Events, PendingCall, String, Value) {
        let (mut events, call) = begin(&mut self.calls, client, 2, &question()).await;
        let (last, asked) = events.next().await.unwrap();
        (events, call, last, asked)
    }

    /// Begins a call of a stateless client that is suspended.
    async fn suspend(&mut self, client: &ScriptedClient) -> (PendingCall, Value) {
        let begun = client.begin(1, "t");
        let mut call = self.calls.recv().await.unwrap();
        assert!(call.say(&question()));
        (call, messages(&begun.await.unwrap()).pop().unwrap())
    }

    /// Returns what a request gets while the first replica is frozen, and after how many seconds.
    async fn frozen<T>(&self, request: impl Future<Output = T>) -> (T, u64) {
        self.freeze_first(true);
        pause();
        let begun = Instant::now();
        let result = request.await;
        let seconds = begun.elapsed().as_secs();
        resume();
        self.freeze_first(false);
        (result, seconds)
    }
}

/// Checks a temporary failure.
async fn check(response: Response<Body>, message: &str, retry_after: &str) {
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], retry_after);
    let said = text(response.into_body()).await;
    assert!(said.contains(message), "{said}");
}

#[tokio::test]
async fn response_without_connection_completes_later() {
    for wire in STATEFUL {
        let mut pair = Pair::new(wire).await;
        let client = pair.client(Generation::Stateful, "ann").await;
        let (mut events, call, _, asked) = pair.ask(&client).await;
        let moved = client.on(&pair.second);
        let (response, seconds) = pair.frozen(moved.reply(&asked["id"], answer())).await;
        check(response, NOT_SENT, "1").await;
        assert!(seconds <= 2, "{seconds}");
        assert_eq!(moved.reply(&asked["id"], answer()).await.status(), 202);
        pair.until_answered("q").await;
        assert!(call.answer(&json!({"content": []})));
        assert_eq!(events.next().await.unwrap().1["id"], 2);
        assert_eq!(forwards(&pair.second, "response"), [1, 0, 1]);
    }
}

#[tokio::test]
async fn response_over_open_connection_ends_in_time() {
    let mut pair = Pair::new(Wire::Stateful).await;
    pair.connect().await;
    let client = pair.client(Generation::Stateful, "ann").await;
    let (_events, _call, _, asked) = pair.ask(&client).await;
    let moved = client.on(&pair.second);
    let (response, seconds) = pair.frozen(moved.reply(&asked["id"], answer())).await;
    check(response, SENT, "5").await;
    assert_eq!(seconds, 10);
}

#[tokio::test]
async fn resumption_at_frozen_replica_completes_later() {
    for connected in [false, true] {
        let mut pair = Pair::new(Wire::Stateful).await;
        if connected {
            pair.connect().await;
        }
        let client = pair.client(Generation::Stateful, "ann").await;
        let (events, call, last, _) = pair.ask(&client).await;
        drop(events);
        let moved = client.on(&pair.second);
        let (response, seconds) = pair.frozen(moved.stand(Some(&last))).await;
        let (message, retry_after, limit) =
            if connected { (SENT, "5", 10) } else { (NOT_SENT, "1", 2) };
        check(response, message, retry_after).await;
        assert!(seconds <= limit, "{seconds}");
        let mut resumed = super::fixtures::events(moved.stand(Some(&last)).await);
        assert!(call.answer(&json!({"content": []})));
        assert_eq!(resumed.next().await.unwrap().1["id"], 2);
    }
}

#[tokio::test]
async fn cancellation_does_not_wait_for_frozen_replica() {
    let mut pair = Pair::new(Wire::Stateful).await;
    pair.connect().await;
    let client = pair.client(Generation::Stateful, "ann").await;
    let moved = client.on(&pair.second);
    let cancelled = json!({"requestId": 2});
    let (response, seconds) = pair.frozen(moved.notify("notifications/cancelled", cancelled)).await;
    assert_eq!((response.status().as_u16(), seconds), (202, 3));
}

#[tokio::test]
async fn suspended_call_is_not_lost_by_timeout() {
    for wire in STATEFUL {
        let mut pair = Pair::new(wire).await;
        let client = pair.client(Generation::Stateless, "ann").await;
        let (call, said) = pair.suspend(&client).await;
        let moved = client.on(&pair.second);
        let ((status, refused), _) = pair.frozen(retry(&moved, &said)).await;
        assert_eq!(status, 503, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(NOT_SENT), "{refused}");
        let resumed = tokio::spawn(async move { retry(&moved, &said).await });
        pair.until_answered("q").await;
        assert!(call.answer(&json!({"content": [{"type": "text", "text": "done"}]})));
        let (status, said) = resumed.await.unwrap();
        assert_eq!(
            (status, &said["result"]["content"][0]["text"]),
            (200, &json!("done")),
            "{said}"
        );
    }
}

#[tokio::test]
async fn unresponsive_replica_may_have_acted() {
    let mut pair = Pair::new(Wire::Stateful).await;
    pair.connect().await;
    let client = pair.client(Generation::Stateless, "ann").await;
    let (_call, said) = pair.suspend(&client).await;
    let moved = client.on(&pair.second);
    let ((status, failed), seconds) = pair.frozen(retry(&moved, &said)).await;
    assert_eq!((status, &failed["id"]), (200, &json!(2)), "{failed}");
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains("does not respond: the call may have acted"), "{message}");
    let data = json!({"reason": "replica_unresponsive", "retryable": false});
    assert_eq!(failed["error"]["data"], data);
    assert!((10..=16).contains(&seconds), "{seconds}");
}

#[tokio::test]
async fn events_of_unresponsive_replica_end_with_error() {
    let mut pair = Pair::new(Wire::Stateful).await;
    let client = pair.client(Generation::Stateless, "ann").await;
    let (mut call, said) = pair.suspend(&client).await;
    let moved = client.on(&pair.second);
    let result = &said["result"];
    let key = result["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let params = json!({"name": "be_t", "arguments": {}, "inputResponses": {key: answer()},
        "requestState": result["requestState"], "_meta": {"progressToken": 1}});
    let resumed =
        tokio::spawn(async move { events(moved.request(&json!(2), "tools/call", params).await) });
    pair.until_answered("q").await;
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": call.message["id"], "progress": 1}});
    assert!(call.say(&progress));
    let mut events = resumed.await.unwrap();
    assert_eq!(events.next().await.unwrap().1["method"], "notifications/progress");
    let (failed, _) = pair.frozen(events.next()).await;
    let (_, failed) = failed.unwrap();
    assert_eq!(failed["id"], 2, "{failed}");
    assert_eq!(failed["error"]["data"]["reason"], "replica_unresponsive", "{failed}");
    assert_eq!(events.next().await, None);
}
