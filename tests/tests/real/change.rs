//! Latency of change notifications for real clients.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use vmcp_tests::counterparts::{Client, Era, Fixture, Gateway, Watcher, skipped};
use vmcp_tests::fixture::Generation;

const WATCHED: &str = "test://watched-resource";

/// Maximum latency of a notification.
const SOON: Duration = Duration::from_secs(1);

/// Test timeout, long enough to distinguish a late notification from a lost one.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

const WATCHERS: [(Client, Era); 5] = [
    (Client::PythonMcp, Era::Legacy),
    (Client::PythonMcp, Era::Modern),
    (Client::TypeScript1, Era::Legacy),
    (Client::TypeScript2, Era::Legacy),
    (Client::TypeScript2, Era::Modern),
];

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1000.0
}

async fn assert_hears_soon(watcher: &mut Watcher, event: &str, changed: f64, who: &str) {
    let change =
        watcher.next(event, WAIT_TIMEOUT).await.unwrap_or_else(|fault| panic!("{who}: {fault}"));
    let late = change.at - changed;
    eprintln!("{who}: {event} after {late:.0} ms");
    assert!(late < SOON.as_secs_f64() * 1000.0, "{who}: {event} after {late:.0} ms");
}

async fn assert_hears_of_changes(watcher: &mut Watcher, fixture: &Fixture, tool: &str, who: &str) {
    let changed = now();
    fixture.call("fixture_add_tool", json!({ "name": tool })).await.unwrap();
    assert_hears_soon(watcher, "tools/list_changed", changed, who).await;
    let changed = now();
    fixture.call("fixture_touch_resource", json!({ "uri": WATCHED })).await.unwrap();
    assert_hears_soon(watcher, "resources/updated", changed, who).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_client_receives_list_changed_directly() {
    if skipped() {
        return;
    }
    let fixture = Fixture::start(Generation::Both).await.unwrap();
    for (index, (client, era)) in WATCHERS.into_iter().enumerate() {
        let who = format!("{client:?} in era {}", era.name());
        let mut watcher = Watcher::start(client, fixture.url(), era, WATCHED).await.unwrap();
        assert_hears_of_changes(&mut watcher, &fixture, &format!("tool_{index}"), &who).await;
    }
}

/// Runs every watcher in front of a backend of this generation, then restarts the backend.
async fn assert_every_client_hears(generation: Generation) {
    let mut fixture = Fixture::start(generation).await.unwrap();
    let gateway = Gateway::before(fixture.url()).await.unwrap();
    let mut watchers = Vec::new();
    for (index, (client, era)) in WATCHERS.into_iter().enumerate() {
        let who = format!("{client:?} in era {}, backend {generation:?}", era.name());
        let mut watcher = Watcher::start(client, gateway.url(), era, WATCHED).await.unwrap();
        assert_hears_of_changes(&mut watcher, &fixture, &format!("tool_{index}"), &who).await;
        watchers.push((watcher, who));
    }
    fixture = fixture.restart().await.unwrap();
    // The new backend lacks the added tools, so its return is itself a change.
    for (watcher, who) in &mut watchers {
        let change = watcher.next("tools/list_changed", WAIT_TIMEOUT).await;
        change.unwrap_or_else(|fault| panic!("{who}, after a restart: {fault}"));
    }
    for (index, (watcher, who)) in watchers.iter_mut().enumerate() {
        let who = format!("{who}, after a restart");
        assert_hears_of_changes(watcher, &fixture, &format!("again_{index}"), &who).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_clients_see_change_promptly_stateful_backend() {
    if skipped() {
        return;
    }
    assert_every_client_hears(Generation::Stateful).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_clients_see_change_promptly_stateless_backend() {
    if skipped() {
        return;
    }
    assert_every_client_hears(Generation::Stateless).await;
}
