//! Tool search with a real embedding model.

use std::time::Duration;

use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use url::Url;
use vmcp_core::{Body, Clock};
use vmcp_optimize::{
    Embedder, EmbeddingService, Index, Query, SearchMode, SearchOptions, ToolDefinition, ToolSearch,
};
use vmcp_tests::counterparts::{EmbeddingServer, skipped};

const TOOLS: &[(&str, &str)] = &[
    ("get_forecast", "Weather of the next days at a place"),
    ("send_mail", "Sends an electronic letter to a person"),
    ("search_flights", "Lists plane connections between two airports"),
    ("convert_currency", "Exchanges an amount of money into another currency"),
];

#[tokio::test]
async fn finds_tools_by_meaning() {
    if skipped() {
        return;
    }
    let server = EmbeddingServer::start().await.unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let service = EmbeddingService::new(&Url::parse(&server.url()).unwrap(), client).unwrap();
    let embedder = Embedder::new(service.timeout(Duration::from_mins(5)), Clock::system());
    let tools = TOOLS.iter().map(|(name, description)| {
        let json = serde_json::json!({"name": name, "description": description}).to_string();
        ToolDefinition { server: "office".into(), json: json.into() }
    });
    let set = Index::new().insert(&tools.collect::<Vec<_>>()).unwrap();
    let search = ToolSearch::new(SearchOptions::default()).embedder(embedder);
    // None of the words occurs in a tool.
    for (query, expected) in [
        ("will I need an umbrella", "get_forecast"),
        ("travelling by air", "search_flights"),
        ("how many dollars are five euros", "convert_currency"),
    ] {
        // On a busy machine the model takes longer than a search waits.
        let found = loop {
            let found = search.search(&set.view_of_all(), &Query::new(query)).await;
            if let SearchMode::Hybrid = found.mode {
                break found;
            }
        };
        let first = found.tools.first().unwrap();
        assert_eq!(set.view_of_all().name(first.place), Some(expected), "{query}");
        assert!(first.keyword.is_none(), "{query}");
    }
}
