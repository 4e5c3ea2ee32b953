//! Sessions at backends, of which replicas share one.

use std::time::Duration;

use futures_util::future::join_all;
use http::Uri;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use vmcp_aggregate::settings::{BackendSettings, Limits};
use vmcp_core::Generation;

use super::{
    Replica, backend, call, delete, open, open_sessions, replica, replicas, replicas_with, settle,
};
use crate::fake::{Behavior, FakeBackend};
use crate::script::{ScriptedBackend, ScriptedClient, Wire};

#[tokio::test(start_paused = true)]
async fn other_replica_takes_over_backend_session() {
    let backend = backend();
    let replicas: [Replica; 3] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    for replica in replicas.iter().cycle().take(9) {
        assert_eq!(call(&replica.serve(&client)).await, (200, Value::Null));
    }
    assert_eq!(backend.times("initialize", "ann"), 1);
    assert_eq!(open_sessions(&backend, "ann").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn concurrent_first_calls_leave_one_session() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    // Both open a session before either has entered its own.
    *backend.behavior.lock().unwrap() = Behavior::Delayed(Duration::from_millis(50));
    let (first, second) = (replicas[0].serve(&client), replicas[1].serve(&client));
    let calls = join_all([call(&first), call(&second), call(&first), call(&second)]).await;
    assert!(calls.iter().all(|call| *call == (200, Value::Null)), "{calls:?}");
    *backend.behavior.lock().unwrap() = Behavior::Normal;
    settle().await;
    assert_eq!(backend.times("initialize", "ann"), 2);
    assert_eq!(open_sessions(&backend, "ann").len(), 1, "the loser ended its own");
    assert_eq!(call(&first).await, (200, Value::Null));
    assert_eq!(call(&second).await, (200, Value::Null));
    assert_eq!(backend.times("initialize", "ann"), 2);
}

#[tokio::test(start_paused = true)]
async fn forgotten_backend_session_is_replaced_once() {
    let backend = backend();
    let replicas: [Replica; 3] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    for replica in &replicas {
        assert_eq!(call(&replica.serve(&client)).await, (200, Value::Null));
    }
    backend.sessions.lock().unwrap().as_mut().unwrap().open.clear();
    let mut marks = Vec::new();
    for replica in replicas.iter().chain(&replicas) {
        let (status, mark) = call(&replica.serve(&client)).await;
        assert_eq!(status, 200);
        marks.push(mark);
    }
    assert_eq!(marks[0], "new", "the state of earlier calls is lost");
    assert!(marks[1..].iter().all(Value::is_null), "{marks:?}");
    assert_eq!(backend.times("initialize", "ann"), 2);
}

#[tokio::test(start_paused = true)]
async fn lost_record_is_marked() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    assert_eq!(call(&client).await, (200, Value::Null));
    replicas[0].storage.lose_records();
    // Without the replica that knows the session at the backend.
    replicas[0].storage.set_heard(false);
    let moved = replicas[1].serve(&client);
    assert_eq!(call(&moved).await, (200, json!("new")));
    assert_eq!(call(&moved).await, (200, Value::Null));
}

#[tokio::test(start_paused = true)]
async fn session_without_backend_sessions_has_no_mark() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    assert_eq!(call(&replicas[1].serve(&client)).await, (200, Value::Null));
    assert_eq!(call(&client).await, (200, Value::Null));
    assert_eq!(backend.times("initialize", "ann"), 1);
}

#[tokio::test(start_paused = true)]
async fn entry_of_changed_url_is_replaced() {
    let backend = backend();
    let replicas: [Replica; 1] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    assert_eq!(call(&client).await, (200, Value::Null));
    let moved =
        BackendSettings { uri: Uri::from_static("http://other.test/mcp"), ..backend.settings() };
    let other = replica(&[moved], replicas[0].storage.replica(), Limits::default()).await;
    assert_eq!(call(&other.serve(&client)).await, (200, json!("new")));
    assert_eq!(backend.times("initialize", "ann"), 2);
}

#[tokio::test(start_paused = true)]
async fn event_stream_backends_share_no_sessions() {
    let (backend, mut calls) = ScriptedBackend::new("be", Wire::Sse);
    let replicas: [Replica; 2] = replicas(&[backend.settings(None)]).await;
    let client = ScriptedClient::new(&replicas[0].gateway, Generation::Stateful, "ann").await;
    let moved = client.clone().on(&replicas[1].gateway);
    for (client, mark) in [(&client, false), (&moved, true), (&moved, false), (&client, false)] {
        let response = client.begin(1, "t");
        calls.recv().await.unwrap().answer(&json!({"content": []}));
        let said = response.await.unwrap();
        assert_eq!(said.contains(r#""vmcp.dev/backendSession":"new""#), mark, "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn idle_copy_ends_no_session_of_others() {
    let ttl = Duration::from_mins(5);
    let limits = |_| Limits { session_ttl: ttl, ..Limits::default() };
    let backend = backend();
    let replicas: [Replica; 2] = replicas_with(&[backend.settings()], limits).await;
    let client = open(&replicas[0], "ann").await;
    let moved = replicas[1].serve(&client);
    assert_eq!(call(&client).await, (200, Value::Null));
    // The client stays at the other replica for longer than the time to live.
    for _ in 0..10 {
        assert_eq!(call(&moved).await, (200, Value::Null));
        sleep(ttl / 2).await;
    }
    assert_eq!(replicas[0].gateway.report().sessions, 0);
    assert_eq!(open_sessions(&backend, "ann").len(), 1);
    assert_eq!(call(&client).await, (200, Value::Null));
    assert_eq!(backend.times("initialize", "ann"), 1);
    // No replica uses it any more.
    sleep(2 * ttl + Duration::from_mins(2)).await;
    assert_eq!(open_sessions(&backend, "ann"), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn evicted_copy_ends_no_session_of_others() {
    let limits =
        |number| Limits { sessions: if number == 0 { 1 } else { 10 }, ..Limits::default() };
    let backend = backend();
    let replicas: [Replica; 2] = replicas_with(&[backend.settings()], limits).await;
    let client = open(&replicas[0], "ann").await;
    for replica in &replicas {
        assert_eq!(call(&replica.serve(&client)).await, (200, Value::Null));
    }
    let other = open(&replicas[0], "ann").await;
    assert_eq!(call(&other).await, (200, Value::Null));
    settle().await;
    assert_eq!(replicas[0].gateway.report().sessions, 1);
    assert_eq!(open_sessions(&backend, "ann").len(), 2);
    assert_eq!(call(&client).await, (200, Value::Null));
    assert_eq!(call(&replicas[1].serve(&client)).await, (200, Value::Null));
    assert_eq!(backend.times("initialize", "ann"), 2);
}

#[tokio::test(start_paused = true)]
async fn used_session_keeps_its_record() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    for _ in 0..20 {
        assert_eq!(call(&client).await, (200, Value::Null));
        sleep(super::TTL / 3).await;
    }
    assert_eq!(call(&replicas[1].serve(&client)).await, (200, Value::Null));
    assert_eq!(backend.times("initialize", "ann"), 1);
}

#[tokio::test(start_paused = true)]
async fn closed_replica_leaves_backend_sessions() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    assert_eq!(call(&client).await, (200, Value::Null));
    let [first, second] = replicas;
    first.gateway.close().await;
    drop((first, client.clone().on(&second.gateway)));
    settle().await;
    assert_eq!(call(&client.on(&second.gateway)).await, (200, Value::Null));
    assert_eq!(backend.times("initialize", "ann"), 1);
}

#[tokio::test(start_paused = true)]
async fn gateway_ids_differ_between_replicas() {
    let (backend, _calls) = ScriptedBackend::new("be", Wire::Stateful);
    let replicas: [Replica; 2] = replicas(&[backend.settings(None)]).await;
    let client = ScriptedClient::new(&replicas[0].gateway, Generation::Stateful, "ann").await;
    let uri = json!({"uri": "x://r"});
    let said = client.request(&json!(1), "resources/subscribe", uri).await;
    assert_eq!(said.status(), 200);
    for replica in &replicas {
        let client = client.clone().on(&replica.gateway);
        client.request(&json!(2), "logging/setLevel", json!({"level": "info"})).await;
    }
    let levels = backend.messages("logging/setLevel");
    assert_eq!(levels.len(), 2, "{levels:?}");
    assert_eq!(levels[0]["session"], levels[1]["session"], "they share it");
    assert_ne!(levels[0]["id"], levels[1]["id"]);
}

#[tokio::test(start_paused = true)]
async fn deletion_ends_backend_sessions_of_all_replicas() {
    let (be, other) = (backend(), FakeBackend::new("other", Generation::Stateful));
    let other = other.offer("*", json!({"tools": [{"name": "t"}]}));
    *other.sessions.lock().unwrap() = Some(crate::fake::Sessions::default());
    let replicas: [Replica; 3] = replicas(&[be.settings(), other.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    assert_eq!(call(&client).await, (200, Value::Null));
    let second = replicas[1].serve(&client);
    assert_eq!(second.ask("tools/call", json!({"name": "other_t"})).await.status, 200);
    // This replica has never seen the session.
    assert_eq!(delete(&replicas[2].serve(&client)).await, 204);
    settle().await;
    assert_eq!((open_sessions(&be, "ann"), open_sessions(&other, "ann")), (vec![], vec![]));
    for replica in &replicas {
        assert_eq!(call(&replica.serve(&client)).await.0, 404);
        assert_eq!(delete(&replica.serve(&client)).await, 404);
        assert_eq!(replica.gateway.report().sessions, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn abandoned_call_continues_at_other_replica() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    *backend.behavior.lock().unwrap() = Behavior::Delayed(Duration::from_secs(1));
    let moved = replicas[1].serve(&client);
    assert!(timeout(Duration::from_millis(500), call(&moved)).await.is_err());
    sleep(Duration::from_secs(10)).await;
    assert_eq!(backend.times("tools/call", "ann"), 1);
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_restore_session_once() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    let moved = replicas[1].serve(&client);
    let calls = join_all((0..50).map(|_| call(&moved))).await;
    assert!(calls.iter().all(|call| *call == (200, Value::Null)), "{calls:?}");
    assert_eq!(replicas[1].gateway.report().sessions, 1);
    assert_eq!(backend.times("initialize", "ann"), 1);
}
