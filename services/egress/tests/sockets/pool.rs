//! Assignment, number and lifetime of connections.

use std::{sync::Arc, time::Duration};

use http_body_util::BodyExt;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};
use vmcp_egress::{Client, Egress, Gauges, Settings};

use vmcp_test_support::ScriptedServer;

use crate::support::{OK, ServerExt, eventually, exchange, post};

/// ScriptedServer that responds to each request when the test says so.
async fn patient() -> ScriptedServer {
    ScriptedServer::start(|mut peer| async move {
        while peer.request().await.is_some() {
            peer.acknowledged().await;
            peer.write(OK).await;
        }
    })
    .await
}

/// Occupies `n` connections of the client and releases them as idle ones.
async fn open(client: &Client, n: usize) {
    let mut bodies = Vec::new();
    for _ in 0..n {
        bodies.push(client.send(post("a")).await.unwrap().into_body());
    }
    for body in bodies {
        body.collect().await.unwrap();
    }
}

/// ScriptedServer whose responses are complete only after their bodies are polled twice.
async fn two_part() -> ScriptedServer {
    ScriptedServer::start(|mut peer| async move {
        while peer.request().await.is_some() {
            peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await;
            peer.write(&vec![b'x'; 100_000]).await;
        }
    })
    .await
}

#[tokio::test]
async fn limits_connections_and_queues_in_order() {
    let server = patient().await;
    let client =
        server.client_with(Settings { max_connections_per_origin: 2, ..Settings::default() });
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in ["0", "1", "2", "3", "4", "5"] {
        let (client, order) = (client.clone(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            exchange(&client, n).await.unwrap();
            order.lock().await.push(n);
        }));
        tokio::task::yield_now().await;
    }
    for answered in 0..6 {
        eventually(|| server.requests().len() >= (answered + 2).min(6)).await;
        server.acknowledge();
        while order.lock().await.len() <= answered {
            tokio::task::yield_now().await;
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    let bodies: Vec<_> = server.requests().iter().map(|it| it.chars().last().unwrap()).collect();
    assert_eq!(bodies, ['0', '1', '2', '3', '4', '5']);
    assert_eq!(server.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_connection_times_out() {
    let server = patient().await;
    let client =
        server.client_with(Settings { max_connections_per_origin: 1, ..Settings::default() });
    let first = tokio::spawn({
        let client = client.clone();
        async move { exchange(&client, "a").await }
    });
    eventually(|| server.requests().len() == 1).await;
    let begun = Instant::now();
    let error = exchange(&client, "b").await.unwrap_err();
    assert_eq!((error.kind(), error.sent(), error.is_connect()), ("overloaded", false, false));
    assert!(begun.elapsed() >= Duration::from_secs(10));
    server.acknowledge();
    first.await.unwrap().unwrap();
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn cancelled_wait_returns_its_permit() {
    let server = patient().await;
    let client =
        server.client_with(Settings { max_connections_per_origin: 1, ..Settings::default() });
    let spawn = || {
        let client = client.clone();
        tokio::spawn(async move { exchange(&client, "a").await })
    };
    let first = spawn();
    eventually(|| server.requests().len() == 1).await;
    let cancelled = spawn();
    tokio::task::yield_now().await;
    let last = spawn();
    tokio::task::yield_now().await;
    cancelled.abort();
    server.acknowledge();
    first.await.unwrap().unwrap();
    eventually(|| server.requests().len() == 2).await;
    server.acknowledge();
    last.await.unwrap().unwrap();
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn counts_open_idle_and_active_connections() {
    let server = two_part().await;
    let egress = Egress::default();
    let client = server.client_of(&egress);
    assert_eq!(egress.gauges(), Gauges::default());
    let response = client.send(post("a")).await.unwrap();
    assert_eq!(egress.gauges(), Gauges { open: 1, idle: 0, in_flight: 1 });
    response.into_body().collect().await.unwrap();
    assert_eq!(egress.gauges(), Gauges { open: 1, idle: 1, in_flight: 0 });
    drop(client.send(post("a")).await.unwrap());
    assert_eq!(egress.gauges(), Gauges { open: 0, idle: 0, in_flight: 0 });
    open(&client, 3).await;
    assert_eq!(egress.gauges(), Gauges { open: 3, idle: 3, in_flight: 0 });
    drop(client);
    assert_eq!(egress.gauges(), Gauges::default());
}

#[tokio::test]
async fn keeps_no_more_idle_connections_than_allowed() {
    let server = two_part().await;
    let egress = Egress::new(Settings { max_idle_per_origin: 2, ..Settings::default() });
    let client = server.client_of(&egress);
    open(&client, 4).await;
    assert_eq!(egress.gauges(), Gauges { open: 2, idle: 2, in_flight: 0 });
}

#[tokio::test(start_paused = true)]
async fn closes_connections_after_idle_timeout() {
    let server = two_part().await;
    let egress = Egress::default();
    let client = server.client_of(&egress);
    open(&client, 3).await;
    sleep(Duration::from_secs(80)).await;
    assert_eq!(egress.gauges().idle, 3);
    // One is used again, which restarts its idle time.
    open(&client, 1).await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(egress.gauges(), Gauges { open: 1, idle: 1, in_flight: 0 });
    sleep(Duration::from_secs(90)).await;
    assert_eq!(egress.gauges(), Gauges::default());
    // The reaper has ended and starts again.
    open(&client, 2).await;
    assert_eq!(egress.gauges().idle, 2);
    sleep(Duration::from_mins(2)).await;
    assert_eq!(egress.gauges(), Gauges::default());
    assert_eq!(server.connections(), 5);
}

#[tokio::test(start_paused = true)]
async fn reaper_closes_connections_closed_by_backend() {
    let server = ScriptedServer::start(|mut peer| async move {
        peer.request().await;
        peer.write(OK).await;
        peer.acknowledged().await;
    })
    .await;
    let egress = Egress::default();
    let client = server.client_of(&egress);
    exchange(&client, "a").await.unwrap();
    sleep(Duration::from_secs(31)).await;
    assert_eq!(egress.gauges().open, 1);
    server.acknowledge();
    sleep(Duration::from_secs(16)).await;
    assert_eq!(egress.gauges(), Gauges::default());
}

#[tokio::test(start_paused = true)]
async fn dropped_factory_leaves_no_task() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let server = two_part().await;
    let before = tasks();
    let client = server.client();
    open(&client, 1).await;
    assert!(tasks() > before);
    drop(client);
    sleep(Duration::from_secs(31)).await;
    eventually(|| tasks() == before).await;
}

#[tokio::test]
async fn body_may_outlive_the_client() {
    let server = two_part().await;
    let egress = Egress::default();
    let client = server.client_of(&egress);
    let body = client.send(post("a")).await.unwrap().into_body();
    drop(client);
    assert_eq!(body.collect().await.unwrap().to_bytes().len(), 100_000);
    assert_eq!(egress.gauges(), Gauges::default());
}
