//! Effects of the settings of `optimizer`.

use std::time::Duration;

use serde_json::json;
use vmcp_test_support::EmbeddingServer;

use super::{TOOLS, backend, callers, find, names, start, until_mode};
use crate::common::{status, until};

#[tokio::test(flavor = "multi_thread")]
async fn returns_at_most_configured_number_of_tools() {
    let tools: Vec<_> = (0..60).map(|number| (format!("read_{number}"), "Reads a file")).collect();
    let tools: Vec<_> = tools.iter().map(|(name, text)| (&**name, *text)).collect();
    let a = backend("a", &tools).start();
    for (setting, expected) in [(json!({}), 8), (json!({"maxToolsToReturn": 0}), 8)]
        .into_iter()
        .chain([3, 50].map(|max| (json!({"maxToolsToReturn": max}), max)))
    {
        let gateway = start(&[&a], setting).await;
        for caller in &mut callers(&gateway).await {
            assert_eq!(
                find(caller, "read file").await["tools"].as_array().unwrap().len(),
                expected
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_tools_by_meaning_with_embedding_service() {
    let a = backend("a", &TOOLS).start();
    let service = EmbeddingServer::new().start();
    let optimizer = json!({"embeddingService": service.url()});
    let gateway = start(&[&a], optimizer).await;
    for caller in &mut callers(&gateway).await {
        let content = until_mode(caller, "umbrella", "hybrid").await;
        assert_eq!(names(&content)[0], "a_get_forecast");
        assert_eq!(content["search"], json!({"mode": "hybrid"}));
    }
    assert!(service.server().embedded().contains(&"umbrella".to_owned()));
    let known = status(&gateway).await["optimizer"]["embedding_service"].clone();
    assert_eq!((&known["model"], &known["error"]), (&json!("model-a"), &json!(null)), "{known}");
    // Without the service, nothing has that word.
    let gateway = start(&[&a], json!({})).await;
    for caller in &mut callers(&gateway).await {
        let content = find(caller, "umbrella").await;
        assert_eq!(
            (&content["tools"], &content["search"]),
            (&json!([]), &json!({"mode": "keyword"}))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_api_key_and_model_to_embedding_service() {
    let a = backend("a", &TOOLS).start();
    let service = EmbeddingServer::new().start();
    // Its list of models would be ambiguous.
    service.server().set(|it| (it.model, it.models) = ("model-b", vec!["model-a", "model-b"]));
    // A variable that each process of the tests has.
    let key = std::env::var("PATH").unwrap();
    let optimizer = json!({"embeddingService": format!("{}/v1", service.url().trim_end_matches('/')),
        "embeddingServiceModel": "model-b", "embeddingServiceApiKeyEnv": "PATH"});
    let gateway = start(&[&a], optimizer).await;
    let [mut caller, _] = callers(&gateway).await;
    until_mode(&mut caller, "umbrella", "hybrid").await;
    assert_eq!(service.server().authorization().unwrap(), format!("Bearer {key}"));
    let known = status(&gateway).await["optimizer"]["embedding_service"].clone();
    assert_eq!(known["model"], "model-b", "{known}");
}

#[tokio::test(flavor = "multi_thread")]
async fn semantic_ratio_weighs_keywords_and_meaning() {
    let tools = [("alpha", "umbrella stand catalog"), ("beta", "weather"), ("gamma", "rain")];
    let a = backend("a", &tools).start();
    let service = EmbeddingServer::new().start();
    let with = |ratio: &str| json!({"embeddingService": service.url(), "hybridSearchSemanticRatio": ratio});
    for (ratio, mode, first) in
        [("0.1", "hybrid", "a_alpha"), ("1.0", "semantic", "a_beta"), ("0.0", "keyword", "a_alpha")]
    {
        let before = service.server().embedded().len();
        let gateway = start(&[&a], with(ratio)).await;
        for caller in &mut callers(&gateway).await {
            let content = until_mode(caller, "umbrella", mode).await;
            assert_eq!(names(&content)[0], first, "{ratio}: {content}");
        }
        let is_used = service.server().embedded().len() > before;
        assert_eq!(is_used, ratio != "0.0", "{ratio}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn distance_threshold_drops_semantic_results() {
    let a = backend("a", &TOOLS).start();
    let service = EmbeddingServer::new().start();
    let mut numbers = Vec::new();
    for threshold in ["0.0", "0.9", "2.0"] {
        let optimizer = json!({"embeddingService": service.url(),
            "hybridSearchSemanticRatio": "1.0", "semanticDistanceThreshold": threshold});
        let gateway = start(&[&a], optimizer).await;
        let mut each = Vec::new();
        for caller in &mut callers(&gateway).await {
            each.push(names(&until_mode(caller, "umbrella", "semantic").await));
        }
        assert_eq!(each[0], each[1]);
        numbers.push(each[0].len());
    }
    assert_eq!((numbers[0], numbers[2]), (0, TOOLS.len()));
    assert!(0 < numbers[1] && numbers[1] < TOOLS.len(), "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_embedding_service_beyond_its_timeout() {
    let a = backend("a", &TOOLS).start();
    let service = EmbeddingServer::new().start();
    service.server().set(|it| it.delay = Duration::from_mins(1));
    let optimizer = json!({"embeddingService": service.url(), "embeddingServiceTimeout": "1s"});
    let gateway = start(&[&a], optimizer).await;
    let [mut caller, _] = callers(&gateway).await;
    let content = find(&mut caller, "write a file").await;
    assert_eq!(
        (&names(&content)[0], &content["search"]["mode"]),
        (&"a_write_file".to_owned(), &json!("keyword"))
    );
    until("the timeout is reported", async || {
        let status = status(&gateway).await;
        let error = status["optimizer"]["embedding_service"]["error"].as_str().unwrap_or_default();
        error.contains("did not respond within 1s")
    })
    .await;
}
