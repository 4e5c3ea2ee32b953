//! Sessions while the storage is away, or its messages are missing.

use std::time::Duration;

use http::header::RETRY_AFTER;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use vmcp_core::Generation;

use super::{Replica, backend, call, delete, open, replicas, settle};
use crate::fake::{Client, FakeBackend};

fn set_reachable(replicas: &[Replica], is_reachable: bool) {
    for replica in replicas {
        replica.storage.set_reachable(is_reachable);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_go_on_for_twenty_seconds_without_storage() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    for replica in &replicas {
        assert_eq!(call(&replica.serve(&client)).await, (200, Value::Null));
    }
    set_reachable(&replicas, false);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(20) {
        for replica in &replicas {
            assert_eq!(call(&replica.serve(&client)).await, (200, Value::Null));
        }
        sleep(Duration::from_millis(500)).await;
    }
    set_reachable(&replicas, true);
    for replica in &replicas {
        assert_eq!(call(&replica.serve(&client)).await, (200, Value::Null));
    }
    assert_eq!(backend.times("initialize", "ann"), 1);
}

#[tokio::test(start_paused = true)]
async fn sessions_rest_after_a_minute_without_storage() {
    let backend = backend();
    let replicas: [Replica; 1] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    assert_eq!(call(&client).await, (200, Value::Null));
    set_reachable(&replicas, false);
    sleep(Duration::from_secs(61)).await;
    let said = client.ask("tools/call", json!({"name": "be_t"})).await;
    assert_eq!(said.status, 503);
    assert!(said.response.headers.contains_key(RETRY_AFTER));
    assert!(said.json()["error"]["message"].as_str().unwrap().contains("session storage"));
    set_reachable(&replicas, true);
    assert_eq!(call(&client).await, (200, Value::Null));
}

#[tokio::test(start_paused = true)]
async fn new_sessions_need_the_storage() {
    let replicas: [Replica; 1] = replicas(&[backend().settings()]).await;
    let client = open(&replicas[0], "ann").await;
    set_reachable(&replicas, false);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
                       "clientInfo": {"name": "c", "version": "1"}});
    let fresh = Client { session: None, ..client };
    let said = fresh.ask("initialize", hello.clone()).await;
    assert_eq!(said.status, 503);
    assert!(said.response.headers.contains_key(RETRY_AFTER));
    assert!(said.json()["error"]["message"].as_str().unwrap().contains("session storage"));
    assert_eq!(replicas[0].gateway.report().sessions, 1);
    set_reachable(&replicas, true);
    assert_eq!(fresh.ask("initialize", hello).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn unknown_sessions_wait_for_the_storage() {
    let replicas: [Replica; 2] = replicas(&[backend().settings()]).await;
    let client = open(&replicas[0], "ann").await;
    let moved = replicas[1].serve(&client);
    replicas[1].storage.set_reachable(false);
    assert_eq!(call(&moved).await.0, 503);
    sleep(Duration::from_secs(70)).await;
    assert_eq!(call(&moved).await.0, 503);
    replicas[1].storage.set_reachable(true);
    assert_eq!(call(&moved).await, (200, Value::Null));
}

#[tokio::test(start_paused = true)]
async fn deletion_without_storage_ends_nothing() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    assert_eq!(call(&client).await.0, 200);
    set_reachable(&replicas, false);
    assert_eq!(delete(&client).await, 503);
    assert_eq!(delete(&replicas[1].serve(&client)).await, 503);
    assert_eq!(call(&client).await.0, 200, "the backend session is open");
    set_reachable(&replicas, true);
    assert_eq!(delete(&replicas[1].serve(&client)).await, 204);
    settle().await;
    assert_eq!(call(&client).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn new_backend_sessions_need_the_storage() {
    let backend = backend();
    let replicas: [Replica; 1] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    set_reachable(&replicas, false);
    let said = client.ask("tools/call", json!({"name": "be_t"})).await;
    assert_eq!(said.status, 503, "{said:?}");
    assert_eq!(backend.times("initialize", "ann"), 0);
    set_reachable(&replicas, true);
    assert_eq!(call(&client).await, (200, Value::Null));
}

#[tokio::test(start_paused = true)]
async fn silence_is_asked_about() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    assert_eq!(call(&client).await.0, 200);
    replicas[0].storage.set_heard(false);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(call(&client).await.0, 200);
    assert_eq!(delete(&replicas[1].serve(&client)).await, 204);
    settle().await;
    assert_eq!(call(&client).await.0, 404, "the storage knows of the end");
    assert_eq!(replicas[0].gateway.report().sessions, 0);
}

#[tokio::test(start_paused = true)]
async fn late_messages_end_sessions() {
    let replicas: [Replica; 2] = replicas(&[backend().settings()]).await;
    let client = open(&replicas[0], "ann").await;
    replicas[0].storage.set_heard(false);
    assert_eq!(delete(&replicas[1].serve(&client)).await, 204);
    replicas[0].storage.set_heard(true);
    settle().await;
    assert_eq!(replicas[0].gateway.report().sessions, 0);
}

#[tokio::test(start_paused = true)]
async fn stateless_clients_need_no_storage() {
    let backend =
        FakeBackend::new("be", Generation::Stateful).offer("*", json!({"tools": [{"name": "t"}]}));
    let replicas: [Replica; 1] = replicas(&[backend.settings()]).await;
    set_reachable(&replicas, false);
    sleep(Duration::from_mins(2)).await;
    let client = Client::new(&replicas[0].gateway, Generation::Stateless, "ann").await;
    assert_eq!(client.call("be_t").await.as_deref(), Some("be:ann"));
}
