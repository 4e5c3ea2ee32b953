//! Records that the storage lost: the replicas enter what they have, and use one backend session.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;
use vmcp_core::Generation;

use super::{Replica, backend, call, delete, open, open_sessions, replicas, settle};
use crate::fake::heard;
use crate::script::{PendingCall, ScriptedBackend, ScriptedClient, Wire};

fn update(uri: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
}

/// Calls the tool of a backend by hand, and returns whether the result is marked.
async fn call_marked(
    client: &ScriptedClient,
    calls: &mut UnboundedReceiver<PendingCall>,
    id: u64,
) -> bool {
    let response = client.begin(id, "t");
    calls.recv().await.unwrap().answer(&json!({"content": []}));
    response.await.unwrap().contains(r#""vmcp.dev/backendSession":"new""#)
}

#[tokio::test(start_paused = true)]
async fn replicas_enter_backend_session_again() {
    let backend = backend();
    let replicas: [Replica; 3] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    for replica in &replicas[..2] {
        assert_eq!(call(&replica.serve(&client)).await, (200, Value::Null));
    }
    replicas[0].storage.lose_records();
    // The third one has never seen the session.
    for replica in replicas.iter().rev().cycle().take(9) {
        assert_eq!(call(&replica.serve(&client)).await, (200, Value::Null));
    }
    assert_eq!(backend.times("initialize", "ann"), 1);
    assert_eq!(delete(&replicas[1].serve(&client)).await, 204);
    settle().await;
    assert_eq!(open_sessions(&backend, "ann"), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn replica_gives_way_to_record() {
    let backend = backend();
    let replicas: [Replica; 3] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    for replica in &replicas[..2] {
        assert_eq!(call(&replica.serve(&client)).await, (200, Value::Null));
        replica.storage.set_heard(false);
    }
    replicas[0].storage.lose_records();
    assert_eq!(call(&replicas[2].serve(&client)).await, (200, json!("new")));
    assert_eq!(open_sessions(&backend, "ann").len(), 2);
    for replica in &replicas[..2] {
        replica.storage.set_heard(true);
    }
    // Before the messages' own step: the request takes it.
    tokio::task::yield_now().await;
    let moved = replicas[0].serve(&client);
    assert_eq!(call(&moved).await, (200, json!("new")), "it is not the session of earlier calls");
    assert_eq!(call(&moved).await, (200, Value::Null));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(open_sessions(&backend, "ann").len(), 1, "the loser has ended its own");
    assert_eq!(call(&replicas[1].serve(&client)).await, (200, json!("new")));
    assert_eq!(call(&replicas[2].serve(&client)).await, (200, Value::Null));
    assert_eq!(backend.times("initialize", "ann"), 2);
    assert_eq!(delete(&moved).await, 204);
    settle().await;
    assert_eq!(open_sessions(&backend, "ann"), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn end_closes_sessions_of_lost_record() {
    let backend = backend();
    let replicas: [Replica; 3] = replicas(&[backend.settings()]).await;
    for is_reset in [false, true] {
        let client = open(&replicas[0], "ann").await;
        assert_eq!(call(&client).await, (200, Value::Null));
        replicas[0].storage.set_heard(!is_reset);
        replicas[0].storage.lose_records();
        // The record is gone, and no request asked for it before its end.
        assert_eq!(delete(&replicas[2].serve(&client)).await, 204);
        replicas[0].storage.set_heard(true);
        settle().await;
        assert_eq!(open_sessions(&backend, "ann"), [0; 0]);
        for replica in &replicas {
            assert_eq!(call(&replica.serve(&client)).await.0, 404);
            assert_eq!(replica.gateway.report().sessions, 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn updates_arrive_after_loss_of_record() {
    let (backend, mut calls) = ScriptedBackend::new("be", Wire::Stateful);
    let replicas: [Replica; 3] = replicas(&[backend.settings(None)]).await;
    let client = ScriptedClient::new(&replicas[0].gateway, Generation::Stateful, "ann").await;
    let [second, third] = [1, 2].map(|number: usize| client.clone().on(&replicas[number].gateway));
    let subscribe = async |client: &ScriptedClient, id: u32, uri: &str| {
        let said = client.request(&json!(id), "resources/subscribe", json!({"uri": uri})).await;
        assert_eq!(said.status(), 200);
    };
    subscribe(&client, 1, "x://before").await;
    let mut stream = client.stand(None).await.into_body();
    assert!(!call_marked(&second, &mut calls, 2).await);
    for (round, is_heard) in [true, false].into_iter().enumerate() {
        for replica in &replicas[..2] {
            replica.storage.set_heard(is_heard);
        }
        replicas[0].storage.lose_records();
        let after = format!("x://after/{round}");
        subscribe(&third, 10 + u32::from(is_heard), &after).await;
        for replica in &replicas {
            replica.storage.set_heard(true);
        }
        sleep(Duration::from_secs(5)).await;
        for uri in ["x://before", &after] {
            backend.announce(&update(uri));
            let said = heard(&mut stream).await;
            assert_eq!(said.matches("resources/updated").count(), 1, "{round} {uri}: {said}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn level_survives_loss_of_record() {
    let (backend, mut calls) = ScriptedBackend::new("be", Wire::Stateful);
    let replicas: [Replica; 2] = replicas(&[backend.settings(None)]).await;
    let client = ScriptedClient::new(&replicas[0].gateway, Generation::Stateful, "ann").await;
    let moved = client.clone().on(&replicas[1].gateway);
    let said = client.request(&json!(1), "logging/setLevel", json!({"level": "warning"})).await;
    assert_eq!(said.status(), 200);
    replicas[0].storage.lose_records();
    assert!(call_marked(&moved, &mut calls, 2).await, "a session may have been lost");
    let levels = backend.messages("logging/setLevel");
    assert_eq!(levels.len(), 1);
    assert_eq!(levels[0]["params"]["level"], "warning");
}

#[tokio::test(start_paused = true)]
async fn idle_sessions_wait_for_their_request() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let clients = join_all((0..50).map(|_| open(&replicas[0], "ann"))).await;
    for client in &clients {
        assert_eq!(call(client).await, (200, Value::Null));
    }
    sleep(Duration::from_mins(10)).await;
    assert_eq!(call(&clients[0]).await, (200, Value::Null));
    let storage = &replicas[0].storage;
    storage.lose_records();
    let steps = storage.steps();
    storage.set_heard(false);
    storage.set_heard(true);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(storage.steps() - steps, 1, "one is in use");
    for client in &clients {
        for _ in 0..3 {
            assert_eq!(call(client).await, (200, Value::Null));
        }
    }
    assert_eq!(storage.steps() - steps, clients.len(), "one step each");
}
