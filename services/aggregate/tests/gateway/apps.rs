//! User interfaces of tools, and the requests of their apps.

use std::sync::Arc;

use serde_json::{Value, json};
use vmcp_aggregate::Gateway;
use vmcp_core::Generation;

use crate::fake::{Client, FakeBackend, gateway};
use crate::tasks::without;

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

fn app(name: &'static str, generation: Generation) -> Arc<FakeBackend> {
    let tools = json!([
        {"name": "show", "_meta": {"ui": {"resourceUri": "ui://app"}}},
        {"name": "refresh", "_meta": {"ui": {"visibility": ["app"]}}},
        {"name": format!("save_{name}")},
    ]);
    let resources = json!([{"uri": "ui://app", "name": "n"}]);
    FakeBackend::new(name, generation).offer("*", json!({"tools": tools, "resources": resources}))
}

async fn two_apps(generation: Generation) -> Gateway {
    gateway(&[app("a", generation), app("b", generation)]).await
}

async fn called(client: &Client, tool: &str) -> Result<String, Value> {
    let said = client.ask("tools/call", json!({"name": tool})).await.json();
    said["result"]["content"][0]["text"].as_str().map(str::to_owned).ok_or(said["error"].clone())
}

#[tokio::test(start_paused = true)]
async fn requests_original_uri_from_backend() {
    for (generation, backend) in BOTH.into_iter().flat_map(|one| BOTH.map(|other| (one, other))) {
        let client = Client::new(&two_apps(backend).await, generation, "").await;
        for (uri, text) in [("ui://app", "a:nobody"), ("ui://vmcp/b/app", "b:nobody")] {
            let said = client.ask("resources/read", json!({"uri": uri})).await;
            let result = &said.json()["result"];
            assert_eq!(result["content"][0]["text"], text, "{said:?}");
            assert_eq!(result["asked"]["uri"], "ui://app", "{said:?}");
        }
        assert_eq!(client.names("resources/list").await, ["ui://app", "ui://vmcp/b/app"]);
    }
}

#[tokio::test(start_paused = true)]
async fn routes_original_names_of_one_backend() {
    for generation in BOTH {
        let client = Client::new(&two_apps(Generation::Stateful).await, generation, "").await;
        assert_eq!(called(&client, "save_b").await.as_deref(), Ok("b:nobody"));
        let refused = called(&client, "refresh").await.unwrap_err();
        let message = "several backends have a tool named refresh: call it a_refresh or b_refresh";
        assert_eq!(refused, json!({"code": -32602, "message": message}));
    }
}

#[tokio::test(start_paused = true)]
async fn opened_app_calls_own_backend() {
    for opening in ["tools/call", "resources/read"] {
        let gateway = two_apps(Generation::Stateless).await;
        let client = Client::new(&gateway, Generation::Stateful, "").await;
        let other = Client::new(&gateway, Generation::Stateful, "").await;
        let opens = |tool: &str, uri: &str| json!({"name": tool, "uri": uri});
        client.ask(opening, opens("b_show", "ui://vmcp/b/app")).await;
        assert_eq!(called(&client, "refresh").await.as_deref(), Ok("b:nobody"));
        assert!(called(&other, "refresh").await.is_err(), "another session");
        client.ask(opening, opens("a_show", "ui://app")).await;
        assert!(called(&client, "refresh").await.is_err(), "both are open");
    }
}

#[tokio::test(start_paused = true)]
async fn hidden_tool_does_not_resolve_for_app() {
    for generation in BOTH {
        let gateway = two_apps(Generation::Stateful).await;
        let client = Client::new(&gateway, generation, "").await;
        let one = client.clone().with(without("a_refresh"));
        assert_eq!(called(&one, "refresh").await.as_deref(), Ok("b:nobody"));
        let none = client.with(without("refresh"));
        let unknown = json!({"code": -32602, "message": "unknown tool: refresh"});
        assert_eq!(called(&none, "refresh").await, Err(unknown));
    }
}

#[tokio::test(start_paused = true)]
async fn reports_colliding_interfaces() {
    let report = two_apps(Generation::Stateful).await.report();
    let conflict = report.conflicts.iter().find(|conflict| conflict.name == "ui://app").unwrap();
    assert_eq!(
        (conflict.kind, &conflict.contenders[..]),
        ("resource", &["a", "b"].map(Into::into)[..])
    );
    assert_eq!(conflict.resolution, "a has it; others are offered as ui://vmcp/<backend>/app");
    let resources = report.entries.iter().filter(|entry| entry.kind == "resource");
    let offered: Vec<_> = resources
        .map(|entry| (&*entry.name, &*entry.original, &*entry.backend, entry.shown))
        .collect();
    let expected =
        [("ui://app", "ui://app", "a", true), ("ui://vmcp/b/app", "ui://app", "b", true)];
    assert_eq!(offered, expected);
}
