//! Metrics and gauges of searches.

use serde_json::json;
use vmcp_test_support::EmbeddingServer;

use super::{TOOLS, backend, callers, find, until_mode};
use crate::common::{gateway_with, status};

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_searches_and_tokens() {
    let a = backend("a", &TOOLS).start();
    let service = EmbeddingServer::new().start();
    let sections = |optimizer| {
        format!("optimizer: {optimizer}\ntelemetry: {{enablePrometheusMetricsPath: true}}\n")
    };
    let gateway = gateway_with(&[&a], &sections(json!({}))).await;
    let content = find(&mut callers(&gateway).await[0], "write a file").await;
    let text = |page: vmcp_tests::counterparts::Reply| String::from_utf8(page.body.to_vec());
    let metrics = text(gateway.page("/metrics").await.unwrap()).unwrap();
    let tokens = &content["token_metrics"];
    for line in [
        r#"vmcp_tool_searches_total{vmcp_search_mode="keyword"} 1"#,
        r#"vmcp_tool_searches_total{vmcp_search_mode="hybrid"} 0"#,
        &format!("vmcp_tool_search_baseline_tokens_total {}", tokens["baseline_tokens"]),
        &format!("vmcp_tool_search_returned_tokens_total {}", tokens["returned_tokens"]),
        r#"vmcp_cache_entries{vmcp_cache_name="indexed_tools"} 6"#,
        r#"vmcp_cache_entries{vmcp_cache_name="tool_search_views"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}:\n{metrics}");
    }
    assert!(!metrics.contains("vmcp_embedding_service_up{"), "there is no such service");
    let optimizer = json!({"embeddingService": service.url()});
    let gateway = gateway_with(&[&a], &sections(optimizer)).await;
    until_mode(&mut callers(&gateway).await[0], "umbrella", "hybrid").await;
    let metrics = text(gateway.page("/metrics").await.unwrap()).unwrap();
    for line in [
        r#"vmcp_tool_searches_total{vmcp_search_mode="hybrid"} 1"#,
        "vmcp_embedding_service_up 1",
        r#"vmcp_cache_entries{vmcp_cache_name="tool_vectors"} 6"#,
    ] {
        assert!(metrics.contains(line), "{line}:\n{metrics}");
    }
    let searches = &status(&gateway).await["optimizer"]["searches"];
    assert_eq!(searches["hybrid"], 1, "{searches}");
}
