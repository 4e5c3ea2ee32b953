//! Behavior of the fixture that the other tests depend on.

use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};
use vmcp_tests::counterparts::{Fixture, Reply, post};
use vmcp_tests::fixture::Generation;

async fn initialize(fixture: &Fixture, version: &str) -> Reply {
    let hello = json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": { "name": "vmcp-tests", "version": "1.0.0" },
    });
    let message = json!({ "jsonrpc": "2.0", "id": 7, "method": "initialize", "params": hello });
    post(fixture.url(), &HeaderMap::new(), &message).await.unwrap()
}

async fn discover(fixture: &Fixture) -> Reply {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = json!({ "jsonrpc": "2.0", "id": 8, "method": "server/discover", "params": { "_meta": meta } });
    let mut headers = HeaderMap::new();
    headers.insert("mcp-protocol-version", HeaderValue::from_static("2026-07-28"));
    headers.insert("mcp-method", HeaderValue::from_static("server/discover"));
    post(fixture.url(), &headers, &message).await.unwrap()
}

fn seen_by(whoami: &Value) -> &Value {
    &whoami["structuredContent"]
}

#[tokio::test(flavor = "multi_thread")]
async fn dual_generation_fixture_answers_both_generations() {
    let fixture = Fixture::start(Generation::Both).await.unwrap();
    let reply = initialize(&fixture, "2025-11-25").await;
    assert_eq!(reply.message().unwrap()["result"]["protocolVersion"], "2025-11-25");
    assert!(reply.headers.contains_key("mcp-session-id"));
    let versions =
        discover(&fixture).await.message().unwrap()["result"]["supportedVersions"].clone();
    assert!(versions.as_array().unwrap().contains(&json!("2026-07-28")), "{versions}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stateful_fixture_rejects_stateless_request() {
    let fixture = Fixture::start(Generation::Stateful).await.unwrap();
    let reply = discover(&fixture).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(reply.message().unwrap()["error"]["code"], -32000);
    let reply = initialize(&fixture, "2026-07-28").await;
    assert_eq!(reply.message().unwrap()["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test(flavor = "multi_thread")]
async fn stateless_fixture_rejects_session() {
    let fixture = Fixture::start(Generation::Stateless).await.unwrap();
    let reply = initialize(&fixture, "2025-11-25").await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    let error = reply.message().unwrap()["error"].clone();
    assert_eq!(
        (&error["code"], &error["data"]["supported"]),
        (&json!(-32022), &json!(["2026-07-28"]))
    );
    assert_eq!(
        discover(&fixture).await.message().unwrap()["result"]["supportedVersions"],
        json!(["2026-07-28"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_fixture_has_no_state() {
    for generation in [Generation::Stateful, Generation::Stateless] {
        let fixture = Fixture::start(generation).await.unwrap();
        let url = fixture.url().to_owned();
        fixture.call("fixture_add_tool", json!({ "name": "extra" })).await.unwrap();
        let answer = fixture.call("extra", json!({})).await.unwrap();
        assert_eq!(answer["content"][0]["text"], "This is extra.");
        let fixture = fixture.restart().await.unwrap();
        assert_eq!(fixture.url(), url);
        fixture.call("extra", json!({})).await.unwrap_err();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoami_reports_session_and_headers() {
    let stateful = Fixture::start(Generation::Stateful).await.unwrap();
    let answer = stateful.call("fixture_whoami", json!({})).await.unwrap();
    let seen = seen_by(&answer);
    assert_eq!(seen["session"], seen["headers"]["mcp-session-id"]);
    assert!(seen["session"].is_string(), "{seen}");
    let stateless = Fixture::start(Generation::Stateless).await.unwrap();
    let answer = stateless.call("fixture_whoami", json!({})).await.unwrap();
    let seen = seen_by(&answer);
    assert_eq!(
        (&seen["session"], &seen["headers"]["mcp-name"]),
        (&Value::Null, &json!("fixture_whoami"))
    );
}
