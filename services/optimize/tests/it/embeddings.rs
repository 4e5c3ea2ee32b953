//! Searches by meaning, and without it.

use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, sleep};
use url::Url;
use vmcp_core::Body;
use vmcp_optimize::{
    Embedder, EmbeddingError, EmbeddingService, FallbackReason, Index, Query, SearchMode,
    SearchOptions, SearchResult, ToolSearch, ToolSet,
};
use vmcp_test_support::EmbeddingServer;

use super::embedders::Embedders;
use super::{names, tool, tools};

fn set() -> ToolSet {
    Index::new().insert(&tools()).unwrap()
}

fn search_with(embedder: &Embedder, ratio: f32) -> ToolSearch {
    let options = SearchOptions { semantic_ratio: ratio, ..SearchOptions::default() };
    ToolSearch::new(options).embedder(embedder.clone())
}

async fn search(embedder: &Embedder, set: &ToolSet, query: &str) -> SearchResult {
    search_with(embedder, 0.5).search(&set.view_of_all(), &Query::new(query)).await
}

fn error(found: &SearchResult) -> Option<&EmbeddingError> {
    match &found.mode {
        SearchMode::Keyword(Some(FallbackReason::Unavailable(error))) => Some(error),
        _ => None,
    }
}

fn is_hybrid(found: &SearchResult) -> bool {
    matches!(found.mode, SearchMode::Hybrid)
}

#[tokio::test(start_paused = true)]
async fn finds_by_meaning_and_words() {
    let (service, set) = (EmbeddingServer::new(), set());
    let embedder = service.embedder();
    let found = search(&embedder, &set, "umbrella").await;
    assert!(is_hybrid(&found), "{:?}", found.mode);
    assert_eq!(names(&set.view_of_all(), &found.tools)[0], "get_forecast");
    let first = &found.tools[0];
    assert!(first.keyword.is_none() && first.semantic.is_some_and(|arm| arm.rank == 1));
    assert!(first.semantic.is_some_and(|arm| (0.0..1.0).contains(&arm.score)));
    // The tools are embedded once; each query once.
    assert_eq!(service.embedded().len(), set.len() + 1);
    search(&embedder, &set, "umbrella").await;
    assert_eq!(service.embedded().len(), set.len() + 1);
    let status = embedder.status();
    assert_eq!((status.model.as_deref(), status.tool_vectors), (Some("model-a"), 5));
    assert_eq!((status.query_vectors, status.pending_sets, status.pending_queries), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn distant_tools_are_left_out() {
    let (service, set) = (EmbeddingServer::new(), set());
    let search = |max_distance| {
        let options =
            SearchOptions { semantic_ratio: 1.0, max_distance, ..SearchOptions::default() };
        ToolSearch::new(options).embedder(service.embedder())
    };
    let view = set.view_of_all();
    let all = search(2.0).search(&view, &Query::new("weather")).await;
    assert!(matches!(all.mode, SearchMode::Semantic) && all.tools.len() == set.len());
    let near = search(0.8).search(&view, &Query::new("weather")).await;
    assert!(near.tools.len() < set.len() && !near.tools.is_empty());
    assert!(near.tools.iter().all(|tool| tool.keyword.is_none()));
    assert!(near.tools.iter().all(|tool| tool.semantic.is_some_and(|arm| arm.score <= 0.8)));
}

#[tokio::test(start_paused = true)]
async fn hidden_tools_are_not_found_by_meaning() {
    let (service, set) = (EmbeddingServer::new(), set());
    let view = set.view([0, 1, 4]).unwrap();
    let search = search_with(&service.embedder(), 1.0);
    let found = search.search(&view, &Query::new("umbrella")).await;
    assert!(names(&view, &found.tools).iter().all(|name| !name.starts_with("get_")));
    let alone = [tools()[0].clone(), tools()[1].clone(), tools()[4].clone()];
    let alone = Index::new().insert(&alone).unwrap().view_of_all();
    assert_eq!(found.tools, search.search(&alone, &Query::new("umbrella")).await.tools);
}

#[tokio::test(start_paused = true)]
async fn ratio_decides_who_is_asked() {
    let (service, set) = (EmbeddingServer::new(), set());
    let embedder = service.embedder();
    let view = set.view_of_all();
    let found = search_with(&embedder, 0.0).search(&view, &Query::new("weather")).await;
    assert!(matches!(found.mode, SearchMode::Keyword(None)) && service.embedded().is_empty());
    service.set(|state| state.status = StatusCode::INTERNAL_SERVER_ERROR);
    let found = search_with(&embedder, 1.0).search(&view, &Query::new("weather")).await;
    // Keywords stand in for the arm that is away.
    assert!(error(&found).is_some() && found.tools[0].keyword.is_some());
}

#[tokio::test(start_paused = true)]
async fn useless_responses_lead_to_keywords() {
    let huge = "[".repeat(9 * 1024 * 1024);
    for (status, body, expected) in [
        (500, "", "status 500"),
        (404, "", "status 404"),
        (200, "<html>Welcome</html>", "another form"),
        (200, "{}", "another form"),
        (200, &huge, "more than"),
    ] {
        let (service, set) = (EmbeddingServer::new(), set());
        service.set(|state| {
            state.status = StatusCode::from_u16(status).unwrap();
            state.body = Some(body.to_owned());
        });
        let embedder = service.embedder();
        let found = search(&embedder, &set, "weather").await;
        let error = error(&found).unwrap().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(names(&set.view_of_all(), &found.tools)[0], "get_forecast");
        assert!(embedder.status().outage.is_some());
        // It comes back by itself.
        service.set(|state| (state.status, state.body) = (StatusCode::OK, None));
        sleep(Duration::from_secs(61)).await;
        assert!(embedder.status().outage.is_none());
        assert!(is_hybrid(&search(&embedder, &set, "weather").await));
    }
}

#[tokio::test(start_paused = true)]
async fn outage_after_success_leads_to_keywords() {
    let (service, set) = (EmbeddingServer::new(), set());
    let embedder = service.embedder();
    assert!(is_hybrid(&search(&embedder, &set, "rain").await));
    for body in ["[[1.0, 2.0]]", "[]", "[[]]", "[[1e999]]", "[[1.0],[1.0]]", "null"] {
        service.set(|state| state.body = Some(body.to_owned()));
        let found = search(&embedder, &set, &format!("weather {body}")).await;
        assert!(error(&found).is_some(), "{body}: {:?}", found.mode);
        assert!(found.tools[0].keyword.is_some());
        service.set(|state| state.body = None);
        sleep(Duration::from_secs(61)).await;
        assert!(is_hybrid(&search(&embedder, &set, "rain").await), "{body}");
    }
    // The vectors of the tools stayed.
    assert_eq!(service.embedded().iter().filter(|text| text.starts_with("server:")).count(), 5);
}

#[tokio::test(start_paused = true)]
async fn changed_model_embeds_tools_again() {
    let (service, set) = (EmbeddingServer::new(), set());
    let embedder = service.embedder();
    assert!(is_hybrid(&search(&embedder, &set, "rain").await));
    // Of another width: the next response shows it. Of the same width: only the service's information does.
    for (model, width) in [("model-b", 32), ("model-c", 32)] {
        service.set(|state| (state.model, state.width) = (model, width));
        sleep(Duration::from_secs(11)).await;
        let found = search(&embedder, &set, &format!("storm {model}")).await;
        assert!(error(&found).is_some(), "{:?}", found.mode);
        sleep(Duration::from_secs(2)).await;
        let found = search(&embedder, &set, "umbrella").await;
        assert!(is_hybrid(&found), "{:?}", found.mode);
        assert_eq!(names(&set.view_of_all(), &found.tools)[0], "get_forecast");
        assert_eq!(embedder.status().model.as_deref(), Some(model));
    }
}

#[tokio::test(start_paused = true)]
async fn slow_service_is_not_awaited() {
    let (service, set) = (EmbeddingServer::new(), set());
    let embedder = service.embedder();
    assert!(is_hybrid(&search(&embedder, &set, "weather").await));
    service.set(|state| state.delay = Duration::from_secs(20));
    let began = Instant::now();
    let found = search(&embedder, &set, "rain").await;
    assert!(matches!(found.mode, SearchMode::Keyword(Some(FallbackReason::Slow))));
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    // Another search for the same text joins the request, which fills the cache.
    search(&embedder, &set, "rain").await;
    sleep(Duration::from_secs(20)).await;
    assert!(is_hybrid(&search(&embedder, &set, "rain").await));
    assert_eq!(service.embedded().iter().filter(|text| *text == "rain").count(), 1);
    // Slower than the timeout of 30 s: an outage.
    service.set(|state| state.delay = Duration::from_secs(40));
    search(&embedder, &set, "umbrella").await;
    assert_eq!(embedder.status().pending_queries, 1);
    sleep(Duration::from_secs(30)).await;
    let found = search(&embedder, &set, "umbrella").await;
    assert!(matches!(error(&found), Some(EmbeddingError::Timeout(_))), "{:?}", found.mode);
    assert_eq!(embedder.status().pending_queries, 0);
}

#[tokio::test(start_paused = true)]
async fn only_first_searches_wait_for_tools() {
    let service = EmbeddingServer::new();
    let tools: Vec<_> = (0..40).map(|at| tool("s", &format!("t{at}"), "weather")).collect();
    let set = Index::new().insert(&tools).unwrap();
    let embedder = service.embedder();
    service.set(|state| state.delay = Duration::from_millis(600));
    let began = Instant::now();
    let found = search(&embedder, &set, "rain").await;
    assert!(matches!(found.mode, SearchMode::Keyword(Some(FallbackReason::Preparing))));
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    let again = Instant::now();
    let found = search(&embedder, &set, "storm").await;
    assert!(matches!(found.mode, SearchMode::Keyword(Some(FallbackReason::Preparing))));
    assert_eq!(again.elapsed(), Duration::ZERO);
    assert_eq!(embedder.status().pending_sets, 1);
    sleep(Duration::from_secs(20)).await;
    assert!(is_hybrid(&search(&embedder, &set, "rain").await));
    assert_eq!(service.embedded().iter().filter(|text| text.starts_with("server:")).count(), 40);
}

#[tokio::test(start_paused = true)]
async fn reload_embeds_changed_tools_only() {
    let (service, index) = (EmbeddingServer::new(), Index::new());
    let embedder = service.embedder();
    let before = index.insert(&tools()).unwrap();
    embedder.prepare(&before);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(service.embedded().len(), 5);
    let mut changed = tools();
    changed[2] = tool("weather", "get_forecast", "Sunshine");
    let after = index.insert(&changed).unwrap();
    drop(before);
    embedder.prepare(&after);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(service.embedded().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn rejected_texts_are_cut() {
    let service = EmbeddingServer::new();
    service.set(|state| state.max_text = 600);
    let set = Index::new().insert(&[tool("s", "t", &"weather ".repeat(2000))]).unwrap();
    assert!(is_hybrid(&search(&service.embedder(), &set, &"rain ".repeat(1000)).await));
}

#[tokio::test(start_paused = true)]
async fn rejected_texts_harm_no_others() {
    let (service, set) = (EmbeddingServer::new(), set());
    service.set(|state| state.rejected = Some("alerts"));
    let embedder = service.embedder();
    let found = search(&embedder, &set, "umbrella").await;
    assert!(is_hybrid(&found), "{:?}", found.mode);
    assert_eq!(found.tools.iter().filter(|tool| tool.semantic.is_some()).count(), 4);
    // Nor does a query.
    let found = search(&embedder, &set, "storm alerts").await;
    assert!(matches!(error(&found), Some(EmbeddingError::Status(_))), "{:?}", found.mode);
    assert_eq!(names(&set.view_of_all(), &found.tools)[0], "get_alerts");
    assert!(embedder.status().outage.is_none());
    assert!(is_hybrid(&search(&embedder, &set, "rain").await));
}

#[tokio::test(start_paused = true)]
async fn speaks_openai_below_v1() {
    let (service, set) = (EmbeddingServer::new(), set());
    for (url, model) in
        [("http://embed.example/v1", None), ("http://embed.example/v1/", Some("model-a"))]
    {
        let found = search(&service.openai(url, model), &set, "umbrella").await;
        assert!(is_hybrid(&found), "{:?}", found.mode);
        assert_eq!(names(&set.view_of_all(), &found.tools)[0], "get_forecast");
    }
    assert_eq!(service.authorization().as_deref(), Some("Bearer canary"));
    service.set(|state| state.models = vec!["a", "b"]);
    let found = search(&service.openai("http://embed.example/v1", None), &set, "rain").await;
    assert!(matches!(error(&found), Some(EmbeddingError::AmbiguousModel(2))));
}

#[test]
fn worker_starts_again_in_another_runtime() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    };
    let (service, set) = (EmbeddingServer::new(), set());
    let embedder = service.embedder();
    service.set(|state| state.delay = Duration::from_secs(5));
    assert!(!is_hybrid(&runtime().block_on(search(&embedder, &set, "rain"))));
    service.set(|state| state.delay = Duration::ZERO);
    assert!(is_hybrid(&runtime().block_on(search(&embedder, &set, "rain"))));
}

#[tokio::test(start_paused = true)]
async fn concurrent_queries_are_bounded() {
    let (service, set) = (EmbeddingServer::new(), set());
    let embedder = service.embedder();
    search(&embedder, &set, "rain").await;
    service.set(|state| state.delay = Duration::from_secs(10));
    let view = set.view_of_all();
    let queries: Vec<_> = (0..300).map(|number| Query::new(format!("rain {number}"))).collect();
    let search = search_with(&embedder, 0.5);
    let found =
        futures_util::future::join_all(queries.iter().map(|query| search.search(&view, query)));
    let found = found.await;
    let busy = found
        .iter()
        .filter(|found| matches!(found.mode, SearchMode::Keyword(Some(FallbackReason::Busy))));
    assert_eq!(busy.count(), 300 - 256);
    assert_eq!(embedder.status().pending_queries, 256);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(embedder.status().pending_queries, 0);
}

#[tokio::test(start_paused = true)]
async fn caches_and_queues_are_bounded() {
    let (service, index) = (EmbeddingServer::new(), Index::new());
    let embedder = service.embedder();
    let set = index.insert(&tools()).unwrap();
    for number in 0..1500 {
        let found = search(&embedder, &set, &format!("rain {number}")).await;
        assert!(is_hybrid(&found), "{:?}", found.mode);
    }
    assert!((900..=1024).contains(&embedder.status().query_vectors));
    service.set(|state| state.delay = Duration::from_secs(20));
    let sets: Vec<_> = (0..1100)
        .map(|number| index.insert(&[tool("s", &format!("t{number}"), "")]).unwrap())
        .collect();
    for set in &sets {
        embedder.prepare(set);
    }
    assert_eq!(embedder.status().pending_sets, 1024);
    // Sets that are gone do not wait.
    drop(sets);
    sleep(Duration::from_mins(2)).await;
    assert_eq!((embedder.status().pending_sets, index.counts().sets), (0, 1));
}

#[test]
fn rejects_urls_of_no_service() {
    let client = tower::service_fn(|_: http::Request<Body>| async {
        Ok::<_, vmcp_core::BoxError>(http::Response::new(Body::empty()))
    });
    let new = |url| EmbeddingService::new(&Url::parse(url).unwrap(), client);
    for url in [
        "ftp://e.example",
        "http://u:p@e.example",
        "http://e.example/?a=b",
        "http://e.example/v1#m",
    ] {
        assert!(new(url).is_err(), "{url}");
    }
    assert!(new("http://e.example").unwrap().model("m").is_err(), "it serves one model");
}

#[tokio::test]
async fn debug_output_contains_no_secrets() {
    let embedder = EmbeddingServer::new().openai("http://embed.example/v1", None);
    assert!(!format!("{embedder:?}").contains("canary"));
}
