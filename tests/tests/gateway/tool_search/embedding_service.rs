//! Faults of the embedding service: each search succeeds by keywords and tells the reason, and the service is used again
//! when it works.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use vmcp_test_support::{EmbeddingListener, EmbeddingServer, McpBackend};
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::Gateway;

use super::{TOOLS, backend, callers, find, names, start, until_mode};
use crate::common::{status, until};

async fn with_service() -> (McpBackend, EmbeddingListener, Gateway) {
    let a = backend("a", &TOOLS).start();
    let service = EmbeddingServer::new().start();
    let optimizer = json!({"embeddingService": service.url(), "embeddingServiceTimeout": "1s"});
    let gateway = start(&[&a], optimizer).await;
    (a, service, gateway)
}

/// Searches by a text that is not in a cache, until the service counts as away. All searches succeed by keywords.
async fn assert_away(gateway: &Gateway, callers: &mut [Caller; 2], error: &str) {
    for caller in &mut *callers {
        let mut number = 0;
        until("searches tell the reason", async || {
            number += 1;
            let content = find(caller, &format!("write a file {error} {number}")).await;
            assert_eq!(names(&content)[0], "a_write_file");
            content["search"]["reason"] == "the embedding service is unavailable"
        })
        .await;
    }
    let status = status(gateway).await;
    let told = status["optimizer"]["embedding_service"]["error"].as_str().unwrap_or_default();
    assert!(told.contains(error), "{error}: {status}");
}

/// Waits until searches use the service again.
async fn assert_back(gateway: &Gateway, callers: &mut [Caller; 2]) {
    for caller in &mut *callers {
        let content = until_mode(caller, "umbrella", "hybrid").await;
        assert_eq!(names(&content)[0], "a_get_forecast");
    }
    let status = status(gateway).await;
    assert_eq!(status["optimizer"]["embedding_service"]["error"], json!(null));
}

/// Returns the number of lines in the log that contain `event`.
fn lines(gateway: &Gateway, event: &str) -> usize {
    gateway.log().lines().filter(|line| line.contains(event)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_embedded_before_first_search() {
    let (a, service, gateway) = with_service().await;
    let vectors =
        async || status(&gateway).await["optimizer"]["embedding_service"]["tool_vectors"].clone();
    until("the tools are embedded", async || vectors().await == TOOLS.len()).await;
    let content = find(&mut callers(&gateway).await[0], "umbrella").await;
    assert_eq!(content["search"]["mode"], "hybrid", "{content}");
    let before = service.server().embedded().len();
    let new =
        json!({"name": "new", "description": "Something else", "inputSchema": {"type": "object"}});
    a.set_items("tools", vec![new.to_string()]);
    a.notify("notifications/tools/list_changed", &json!(null));
    until("the new tool is embedded", async || {
        service.server().embedded().iter().any(|text| text.contains("Something else"))
    })
    .await;
    assert_eq!(service.server().embedded().len(), before + 1, "others are not embedded again");
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_by_keywords_while_service_is_away() {
    let (_a, mut service, gateway) = with_service().await;
    let callers = &mut callers(&gateway).await;
    assert_back(&gateway, callers).await;
    service.stop();
    assert_away(&gateway, callers, "failed to reach").await;
    assert_eq!(lines(&gateway, "embedding_service_unavailable"), 1, "{}", gateway.log());
    service.restart();
    assert_back(&gateway, callers).await;
    assert_eq!(lines(&gateway, "embedding_service_available"), 1, "{}", gateway.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_by_keywords_while_service_fails() {
    let (_a, service, gateway) = with_service().await;
    let callers = &mut callers(&gateway).await;
    assert_back(&gateway, callers).await;
    let service = service.server();
    service.set(|it| it.status = StatusCode::INTERNAL_SERVER_ERROR);
    assert_away(&gateway, callers, "status 500").await;
    service.set(|it| it.status = StatusCode::OK);
    assert_back(&gateway, callers).await;
    service.set(|it| it.delay = Duration::from_secs(5));
    assert_away(&gateway, callers, "within 1s").await;
    service.set(|it| it.delay = Duration::ZERO);
    assert_back(&gateway, callers).await;
    service.set(|it| it.width = 32);
    assert_away_once(&gateway, callers).await;
    service.set(|it| it.width = 64);
    assert_back(&gateway, callers).await;
    let (away, back) = ("embedding_service_unavailable", "embedding_service_available");
    assert_eq!((lines(&gateway, away), lines(&gateway, back)), (3, 3), "{}", gateway.log());
}

/// Searches once with vectors of another width. The service is used again as soon as the tools have such vectors, too.
async fn assert_away_once(gateway: &Gateway, callers: &mut [Caller; 2]) {
    let content = find(&mut callers[0], "write a wide file").await;
    assert_eq!(names(&content)[0], "a_write_file");
    let expected = json!({"mode": "keyword", "reason": "the embedding service is unavailable"});
    assert_eq!(content["search"], expected);
    assert_back(gateway, callers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_model_embeds_tools_again() {
    let (_a, service, gateway) = with_service().await;
    let callers = &mut callers(&gateway).await;
    assert_back(&gateway, callers).await;
    // The number of dimensions tells the change at once; without it, the next check does.
    service.server().set(|it| (it.model, it.width) = ("model-b", 1024));
    let content = find(&mut callers[0], "write a file again").await;
    assert_eq!(names(&content)[0], "a_write_file");
    assert_eq!(content["search"]["mode"], "keyword");
    assert_back(&gateway, callers).await;
    let status = status(&gateway).await;
    assert_eq!(status["optimizer"]["embedding_service"]["model"], "model-b");
    let again = service.server().embedded();
    let forecasts = again.iter().filter(|text| text.contains("forecast")).count();
    assert_eq!(forecasts, 2, "{again:?}");
}
