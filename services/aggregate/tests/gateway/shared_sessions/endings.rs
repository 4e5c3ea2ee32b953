//! Ends of sessions at other replicas, and requests of others than their owners.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use vmcp_aggregate::settings::Limits;
use vmcp_core::{Clock, Generation};
use vmcp_session::{MAX_TOMBSTONES_PER_OWNER, MemorySessionStorage};

use super::{
    Replica, TTL, backend, call, delete, id, open, replica, replicas, settle, user, with_id,
};
use crate::fake::{Client, heard};
use crate::script::{ScriptedBackend, ScriptedClient, Wire};

#[tokio::test(start_paused = true)]
async fn thief_gets_and_ends_nothing() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    assert_eq!(call(&client).await.0, 200);
    for replica in &replicas {
        for subject in ["bob", ""] {
            let thief = Client { identity: user(subject), ..replica.serve(&client) };
            assert_eq!(call(&thief).await.0, 404);
            assert_eq!(delete(&thief).await, 404);
        }
    }
    settle().await;
    for replica in &replicas {
        assert_eq!(call(&replica.serve(&client)).await, (200, Value::Null));
    }
}

#[tokio::test(start_paused = true)]
async fn anonymous_session_is_closed_to_users() {
    let replicas: [Replica; 2] = replicas(&[backend().settings()]).await;
    let client = open(&replicas[0], "").await;
    let thief = Client { identity: user("bob"), ..replicas[1].serve(&client) };
    assert_eq!((call(&thief).await.0, delete(&thief).await), (404, 404));
    assert_eq!(call(&replicas[1].serve(&client)).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn changed_and_invented_ids_open_nothing() {
    let replicas: [Replica; 2] = replicas(&[backend().settings()]).await;
    let client = open(&replicas[0], "ann").await;
    let own = id(&client);
    let last = if own.ends_with('A') { "B" } else { "A" };
    let changed = format!("{}{last}", &own[..own.len() - 1]);
    let other = format!("{}{}", "0".repeat(32), &own[32..]);
    for replica in &replicas {
        for made_up in [&own[..32], &changed, &other, &format!("{own}A"), "x", &"0".repeat(32)] {
            let client = with_id(&replica.serve(&client), made_up);
            assert_eq!((call(&client).await.0, delete(&client).await), (404, 404), "{made_up}");
        }
        assert_eq!(call(&replica.serve(&client)).await.0, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn ended_id_cannot_be_replayed_anywhere() {
    let replicas: [Replica; 3] = replicas(&[backend().settings()]).await;
    let client = open(&replicas[0], "ann").await;
    for replica in &replicas[..2] {
        assert_eq!(call(&replica.serve(&client)).await.0, 200);
    }
    assert_eq!(delete(&replicas[1].serve(&client)).await, 204);
    settle().await;
    for replica in &replicas {
        let client = replica.serve(&client);
        assert_eq!(call(&client).await.0, 404);
        assert_eq!(client.ask("tools/list", json!({})).await.status, 404);
        assert_eq!(replica.gateway.cache_sizes().ended_sessions, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn end_elsewhere_ends_streams_and_calls() {
    let (backend, mut calls) = ScriptedBackend::new("be", Wire::Stateful);
    let replicas: [Replica; 2] = replicas(&[backend.settings(None)]).await;
    let client = ScriptedClient::new(&replicas[0].gateway, Generation::Stateful, "ann").await;
    let mut stream = client.stand(None).await.into_body();
    let response = client.begin(1, "t");
    let mut pending = calls.recv().await.unwrap();
    assert!(pending.say(&json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": 1}})));
    settle().await;
    assert_eq!(client.clone().on(&replicas[1].gateway).leave().await, 204);
    let said = tokio::time::timeout(Duration::from_secs(1), response).await.unwrap().unwrap();
    assert!(!said.contains("result"), "{said}");
    assert!(!heard(&mut stream).await.contains("result"));
    settle().await;
    assert!(pending.is_gone());
    assert_eq!(backend.messages("DELETE").len(), 1, "the ender ends the backend's session");
    assert_eq!(backend.cancellations().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn restored_session_may_end_meanwhile() {
    let replicas: [Replica; 2] = replicas(&[backend().settings()]).await;
    let client = open(&replicas[0], "ann").await;
    // The message of the end has not arrived.
    replicas[1].storage.set_heard(false);
    assert_eq!(delete(&client).await, 204);
    assert_eq!(call(&replicas[1].serve(&client)).await.0, 404);
    replicas[1].storage.set_heard(true);
    assert_eq!(call(&replicas[1].serve(&client)).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn clocks_may_differ_by_fifty_seconds() {
    let backend = backend();
    let now = SystemTime::now();
    let storage = MemorySessionStorage::new(TTL, Clock::manual(now));
    let mut replicas = Vec::new();
    for skew in [0, 50] {
        let clock = Clock::manual(now + Duration::from_secs(skew));
        let limits = Limits { clock, ..Limits::default() };
        replicas.push(replica(&[backend.settings()], storage.replica(), limits).await);
    }
    for (first, second) in [(0, 1), (1, 0)] {
        let client = open(&replicas[first], "ann").await;
        assert_eq!(call(&client).await, (200, Value::Null));
        assert_eq!(call(&replicas[second].serve(&client)).await, (200, Value::Null));
        assert_eq!(delete(&replicas[second].serve(&client)).await, 204);
        settle().await;
        assert_eq!(call(&client).await.0, 404);
        // A session that begins afterwards is another one.
        let next = open(&replicas[first], "ann").await;
        assert_eq!(call(&replicas[second].serve(&next)).await, (200, Value::Null));
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_ended_sessions_stay_ended() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let mut ended = Vec::new();
    for number in 0..10_000 {
        let client = open(&replicas[0], &format!("user {}", number % 20)).await;
        assert_eq!(delete(&replicas[1].serve(&client)).await, 204);
        ended.push(client);
    }
    for client in ended.iter().step_by(97) {
        for replica in &replicas {
            assert_eq!(call(&replica.serve(client)).await.0, 404);
        }
    }
    for replica in &replicas {
        assert_eq!(replica.gateway.cache_sizes().ended_sessions, 10_000);
    }
    let client = open(&replicas[0], "user 1").await;
    assert_eq!(call(&replicas[1].serve(&client)).await, (200, Value::Null));
}

#[tokio::test(start_paused = true)]
async fn many_ended_sessions_end_earlier_ones_everywhere() {
    let clock = Clock::manual(SystemTime::now());
    let limits = |_| Limits { clock: clock.clone(), ..Limits::default() };
    let storage = MemorySessionStorage::new(TTL, clock.clone());
    let backend = backend();
    let first = replica(&[backend.settings()], storage.clone(), limits(0)).await;
    let second = replica(&[backend.settings()], storage.replica(), limits(1)).await;
    let (early, other) = (open(&first, "ann").await, open(&first, "bob").await);
    assert_eq!(call(&early).await.0, 200);
    for _ in 0..=MAX_TOMBSTONES_PER_OWNER {
        assert_eq!(delete(&open(&second, "ann").await).await, 204);
    }
    settle().await;
    assert_eq!(first.gateway.report().sessions, 1, "only the other user's");
    assert_eq!(call(&early).await.0, 404);
    assert_eq!(call(&other).await.0, 200);
    clock.advance(Duration::from_secs(1));
    assert_eq!(call(&open(&first, "ann").await).await.0, 200);
}
