//! Shutdown of the service.

use std::time::Duration;

use serde_json::json;
use vmcp_aggregate::settings::PartialFailure;
use vmcp_core::Generation;

use crate::fake::{Behavior, Client, FakeBackend, Sessions, gateway, settings};

#[tokio::test(start_paused = true)]
async fn close_waits_for_sessions_at_slow_backends() {
    let fake =
        FakeBackend::new("be", Generation::Stateful).offer("*", json!({"tools": [{"name": "x"}]}));
    *fake.sessions.lock().unwrap() = Some(Sessions::default());
    let gateway = gateway(std::slice::from_ref(&fake)).await;
    let client = Client::new(&gateway, Generation::Stateful, "alice").await;
    assert!(client.call("be_x").await.is_some());
    let open = || fake.sessions.lock().unwrap().as_ref().unwrap().open.len();
    assert_eq!(open(), 2, "the observer's and the client's");
    *fake.behavior.lock().unwrap() = Behavior::Delayed(Duration::from_secs(1));
    gateway.close().await;
    assert_eq!(open(), 0);
}

#[tokio::test(start_paused = true)]
async fn close_waits_for_sessions_at_removed_backends() {
    let fake =
        FakeBackend::new("be", Generation::Stateful).offer("*", json!({"tools": [{"name": "x"}]}));
    *fake.sessions.lock().unwrap() = Some(Sessions::default());
    let gateway = gateway(std::slice::from_ref(&fake)).await;
    let client = Client::new(&gateway, Generation::Stateful, "alice").await;
    assert!(client.call("be_x").await.is_some());
    let open = || fake.sessions.lock().unwrap().as_ref().unwrap().open.len();
    assert_eq!(open(), 2, "the observer's and the client's");
    *fake.behavior.lock().unwrap() = Behavior::Delayed(Duration::from_secs(1));
    gateway.reload(settings(Vec::new(), PartialFailure::BestEffort, None)).await;
    gateway.close().await;
    assert_eq!(open(), 0);
}
