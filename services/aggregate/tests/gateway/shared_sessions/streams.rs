//! Notification streams, subscriptions and log levels of sessions at several replicas.

use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::timeout;
use vmcp_core::Generation;

use super::{Replica, backend, call, open, replicas, settle};
use crate::fake::heard;
use crate::script::{ScriptedBackend, ScriptedClient, Wire};

const LISTS: [&str; 3] = ["tools", "prompts", "resources"];

fn update(uri: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
}

/// Returns the number of times that each list was reported as changed.
fn changes(said: &str) -> Vec<usize> {
    LISTS.map(|list| said.matches(&format!("notifications/{list}/list_changed")).count()).to_vec()
}

#[tokio::test(start_paused = true)]
async fn only_holder_follows_backends() {
    let (backend, mut calls) = ScriptedBackend::new("be", Wire::Stateful);
    let replicas: [Replica; 2] = replicas(&[backend.settings(None)]).await;
    let own = backend.standing();
    let client = ScriptedClient::new(&replicas[0].gateway, Generation::Stateful, "ann").await;
    let moved = client.clone().on(&replicas[1].gateway);
    let mut stream = client.stand(None).await.into_body();
    // The other replica opens the backend session and subscribes.
    let response = moved.begin(1, "t");
    calls.recv().await.unwrap().answer(&json!({"content": []}));
    response.await.unwrap();
    let said = moved.request(&json!(2), "resources/subscribe", json!({"uri": "x://r"})).await;
    assert_eq!(said.status(), 200);
    settle().await;
    assert_eq!(backend.standing(), own + 1, "the holder alone follows");
    backend.announce(&update("x://r"));
    let said = heard(&mut stream).await;
    assert_eq!(said.matches("resources/updated").count(), 1, "{said}");
}

#[tokio::test(start_paused = true)]
async fn stream_moves_with_its_client() {
    let (backend, _calls) = ScriptedBackend::new("be", Wire::Stateful);
    let replicas: [Replica; 2] = replicas(&[backend.settings(None)]).await;
    let own = backend.standing();
    let client = ScriptedClient::new(&replicas[0].gateway, Generation::Stateful, "ann").await;
    let moved = client.clone().on(&replicas[1].gateway);
    let said = client.request(&json!(2), "resources/subscribe", json!({"uri": "x://r"})).await;
    assert_eq!(said.status(), 200);
    let mut first = client.stand(None).await.into_body();
    settle().await;
    assert_eq!(backend.standing(), own + 1);
    let mut second = moved.stand(None).await.into_body();
    settle().await;
    assert_eq!(backend.standing(), own + 1, "the former holder has stopped");
    let end = async { while first.frame().await.is_some() {} };
    assert!(timeout(Duration::from_secs(1), end).await.is_ok(), "its stream has ended");
    backend.announce(&update("x://r"));
    let said = heard(&mut second).await;
    assert_eq!(said.matches("resources/updated").count(), 1, "{said}");
    assert_eq!(changes(&said), [1, 1, 1], "something may have been missed: {said}");
    // Back again.
    let mut third = client.stand(None).await.into_body();
    settle().await;
    backend.announce(&update("x://r"));
    let said = heard(&mut third).await;
    assert_eq!(said.matches("resources/updated").count(), 1, "{said}");
    assert_eq!(changes(&said), [1, 1, 1], "{said}");
    assert_eq!(backend.messages("resources/subscribe").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_of_stateless_backends_move() {
    let (backend, mut calls) = ScriptedBackend::new("be", Wire::Stateless);
    backend.by_hand.lock().unwrap().push("subscriptions/listen");
    let replicas: [Replica; 2] = replicas(&[backend.settings(None)]).await;
    let client = ScriptedClient::new(&replicas[0].gateway, Generation::Stateful, "ann").await;
    let moved = client.clone().on(&replicas[1].gateway);
    while calls.try_recv().is_ok() {}
    let mut stream = client.stand(None).await.into_body();
    // The replica without the stream does not listen.
    let said = moved.request(&json!(2), "resources/subscribe", json!({"uri": "x://r"})).await;
    assert_eq!(said.status(), 200);
    let mut listening = None;
    let listens = async {
        while let Some(call) = calls.recv().await {
            if call.message["params"]["notifications"]["resourceSubscriptions"] == json!(["x://r"])
            {
                listening = Some(call);
                break;
            }
        }
    };
    assert!(timeout(Duration::from_secs(5), listens).await.is_ok());
    let mut listening = listening.unwrap();
    assert!(listening.say(&update("x://r")));
    assert!(heard(&mut stream).await.contains("resources/updated"));
    let more = timeout(Duration::from_secs(5), calls.recv()).await;
    assert!(more.is_err(), "one replica listens: {:?}", more.ok().flatten().map(|it| it.message));
}

#[tokio::test(start_paused = true)]
async fn level_reaches_backend_sessions_of_all_replicas() {
    let (backend, mut calls) = ScriptedBackend::new("be", Wire::Stateful);
    let replicas: [Replica; 3] = replicas(&[backend.settings(None)]).await;
    let client = ScriptedClient::new(&replicas[0].gateway, Generation::Stateful, "ann").await;
    let [second, third] = [1, 2].map(|number: usize| client.clone().on(&replicas[number].gateway));
    let level = json!({"level": "warning"});
    // Before the first backend session: whichever replica opens it sends the level.
    let said = second.request(&json!(1), "logging/setLevel", level).await;
    assert_eq!(said.status(), 200);
    let response = client.begin(2, "t");
    calls.recv().await.unwrap().answer(&json!({"content": []}));
    response.await.unwrap();
    let levels = |backend: &ScriptedBackend| {
        let levels = backend.messages("logging/setLevel");
        levels.iter().map(|it| it["params"]["level"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(levels(&backend), ["warning"]);
    // Afterwards: the replica that gets the level need not have used it.
    third.request(&json!(3), "logging/setLevel", json!({"level": "debug"})).await;
    assert_eq!(levels(&backend), ["warning", "debug"]);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_follow_to_new_backend_session() {
    let (backend, mut calls) = ScriptedBackend::new("be", Wire::Stateful);
    let replicas: [Replica; 2] = replicas(&[backend.settings(None)]).await;
    let client = ScriptedClient::new(&replicas[0].gateway, Generation::Stateful, "ann").await;
    client.request(&json!(1), "resources/subscribe", json!({"uri": "x://r"})).await;
    backend.forget_sessions();
    let response = client.clone().on(&replicas[1].gateway).begin(2, "t");
    calls.recv().await.unwrap().answer(&json!({"content": []}));
    assert!(response.await.unwrap().contains(r#""vmcp.dev/backendSession":"new""#));
    assert_eq!(backend.messages("resources/subscribe").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn first_stream_at_new_replica_reports_lists() {
    let backend = backend();
    let replicas: [Replica; 2] = replicas(&[backend.settings()]).await;
    let client = open(&replicas[0], "ann").await;
    assert_eq!(call(&client).await.0, 200);
    assert_eq!(changes(&heard(&mut client.stand().await).await), [0, 0, 0]);
    let moved = replicas[1].serve(&client);
    assert_eq!(changes(&heard(&mut moved.stand().await).await), [1, 1, 1]);
    assert_eq!(changes(&heard(&mut moved.stand().await).await), [0, 0, 0], "once");
}
