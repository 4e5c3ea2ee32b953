//! Requests that name a replica which is gone.

use serde_json::json;
use vmcp_core::Generation;

use super::fixtures::{Pair, begin, forwards, question};
use super::{STATEFUL, answer, retry};
use crate::script::{Wire, messages};

#[tokio::test]
async fn lost_suspended_call_may_have_acted() {
    for wire in STATEFUL {
        let mut pair = Pair::new(wire).await;
        let client = pair.client(Generation::Stateless, "ann").await;
        let begun = client.begin(1, "t");
        let mut call = pair.calls.recv().await.unwrap();
        assert!(call.say(&question()));
        let said = messages(&begun.await.unwrap()).pop().unwrap();
        pair.kill_first();
        let (status, lost) = retry(&client.on(&pair.second), &said).await;
        assert_eq!((status, &lost["error"]["code"]), (200, &json!(-32603)), "{lost}");
        let message = lost["error"]["message"].as_str().unwrap();
        assert!(message.contains("lost with its replica"), "{message}");
        assert!(message.contains("may have acted"), "{message}");
        assert_eq!(lost["error"]["data"]["retryable"], false);
        assert_eq!(forwards(&pair.second, "suspended_call"), [0, 1, 0]);
    }
}

#[tokio::test]
async fn lost_stream_and_question_end_no_session() {
    let mut pair = Pair::new(Wire::Stateful).await;
    let client = pair.client(Generation::Stateful, "ann").await;
    let (mut events, _call) = begin(&mut pair.calls, &client, 1, &question()).await;
    let (last, asked) = events.next().await.unwrap();
    let moved = client.on(&pair.second);
    pair.kill_first();
    for response in [moved.reply(&asked["id"], answer()).await, moved.stand(Some(&last)).await] {
        assert_eq!(response.status(), 400);
        let said = crate::script::text(response.into_body()).await;
        assert!(said.contains("lost with its replica"), "{said}");
    }
    assert_eq!(moved.stand(None).await.status(), 200, "the session goes on");
}

#[tokio::test]
async fn evicted_session_loses_its_streams() {
    // The holder has ended the session; its client keeps it.
    let mut pair = Pair::new(Wire::Stateful).await;
    let client = pair.client(Generation::Stateful, "ann").await;
    let (mut events, _call) = begin(&mut pair.calls, &client, 1, &question()).await;
    let (last, asked) = events.next().await.unwrap();
    assert_eq!(client.leave().await, 204);
    let moved = client.on(&pair.second);
    assert_eq!(moved.reply(&asked["id"], answer()).await.status(), 400);
    assert_eq!(moved.stand(Some(&last)).await.status(), 400);
    assert_eq!(forwards(&pair.second, "resumption"), [1, 0, 0]);
}
