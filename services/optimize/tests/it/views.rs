//! Searches of the tools that a caller may see.

use proptest::prelude::*;
use vmcp_optimize::{Index, Query, SearchOptions, ToolDefinition, ToolMatch, ToolSearch, View};

use super::{names, search, tool, tools};

#[tokio::test]
async fn finds_tools_by_their_words() {
    let set = Index::new().insert(&tools()).unwrap();
    let view = set.view_of_all();
    for (query, expected) in [
        ("report an issue", "createIssue"),
        ("create issue", "createIssue"),
        ("what will the weather be", "get_forecast"),
        ("storm", "get_alerts"),
        ("save it as /data/a/b.md", "write_file"),
    ] {
        let found = search(&view, query).await;
        assert_eq!(names(&view, &found).first(), Some(&expected), "{query}");
    }
}

#[tokio::test]
async fn finds_texts_of_any_script() {
    let texts = [
        ("weather", "查询天气预报"),
        ("погода", "Прогноз погоды"),
        ("ทดสอบ", "ค้นหาข้อมูลสภาพอากาศ"),
        ("मौसम", "मौसम की जानकारी"),
        ("طقس", "حالة الطقس اليوم"),
        ("날씨", "오늘의 날씨 정보"),
        ("emoji", "😀 👍"),
    ];
    let tools: Vec<_> = texts.iter().map(|(name, text)| tool("s", name, text)).collect();
    let view = Index::new().insert(&tools).unwrap().view_of_all();
    for (query, expected) in [
        ("明天的天气", "weather"),
        ("прогноз", "погода"),
        ("สภาพอากาศ", "ทดสอบ"),
        ("जानकारी", "मौसम"),
        ("الطقس", "طقس"),
        ("날씨", "날씨"),
    ] {
        let found = search(&view, query).await;
        assert_eq!(names(&view, &found).first(), Some(&expected), "{query}");
    }
    for nothing in ["", "😀", "the", "\u{0}", "zzz"] {
        assert!(search(&view, nothing).await.is_empty(), "{nothing:?}");
    }
}

#[tokio::test]
async fn huge_queries_find_tools() {
    let view = Index::new().insert(&tools()).unwrap().view_of_all();
    let query = format!("create an issue {}", "lorem ipsum ".repeat(100_000));
    assert_eq!(names(&view, &search(&view, &query).await)[0], "createIssue");
}

#[tokio::test]
async fn number_of_results_is_bounded() {
    let tools: Vec<_> = (0..200).map(|at| tool("s", &format!("issue_{at}"), "issue")).collect();
    let view = Index::new().insert(&tools).unwrap().view_of_all();
    for (max, expected) in [(None, 8), (Some(3), 3), (Some(0), 8), (Some(1000), 50)] {
        let query = Query { max, ..Query::new("issue") };
        let found = ToolSearch::new(SearchOptions::default()).search(&view, &query).await;
        assert_eq!(found.tools.len(), expected, "{max:?}");
        // Equal scores: the order of the set.
        assert!(found.tools.is_sorted_by_key(|tool| tool.place));
    }
}

#[test]
fn searches_run_on_any_thread() {
    fn is_shareable<T: Send + Sync>(_: &T) {}
    fn is_movable<T: Send>(_: &T) {}
    let view = Index::new().insert(&tools()).unwrap().view_of_all();
    let (search, query) = (ToolSearch::new(SearchOptions::default()), Query::new("issue"));
    is_shareable(&(&view, &search, view.clone()));
    is_movable(&search.search(&view, &query));
}

#[test]
fn rejects_positions_outside_the_set() {
    let set = Index::new().insert(&tools()).unwrap();
    let error = set.view([0, 7]).unwrap_err();
    assert_eq!((error.position, error.len), (7, 5));
    assert_eq!(set.view([3, 1, 3]).unwrap().len(), 2);
    assert_eq!(set.view(0..5).unwrap().len(), 5);
    assert!(set.view([]).unwrap().is_empty());
}

/// Searches by all kinds of keywords, also those of hidden tools.
fn found(view: &View, query: &str) -> Vec<ToolMatch> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(search(view, query))
}

/// Up to 90 tools of words that repeat, on few or on many servers.
fn catalogs() -> impl Strategy<Value = Vec<ToolDefinition>> {
    let words = "(alpha|beta|gamma|delta|omega)( (alpha|beta|gamma|delta|omega)){0,5}";
    let parts = (0_usize..80, "(read|write|list)_[a-c]{1,2}", words);
    let tool = parts.prop_map(|(server, name, text)| tool(&format!("s{server}"), &name, &text));
    proptest::collection::vec(tool, 1..90)
}

proptest! {
    // Each case indexes up to 180 tools.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn view_equals_index_of_its_tools(
        tools in catalogs(),
        others in catalogs(),
        visible in proptest::collection::vec(any::<bool>(), 90),
        query in "(alpha|beta|gamma|read|write|a|b|ab){1}( (omega|list|s1|aa|zeta)){0,3}",
    ) {
        let shared = Index::new();
        let _others = shared.insert(&others).unwrap();
        let positions: Vec<_> = (0..tools.len()).filter(|at| visible[*at]).collect();
        let view = shared.insert(&tools).unwrap().view(positions.iter().copied()).unwrap();
        let alone: Vec<_> = positions.iter().map(|at| tools[*at].clone()).collect();
        let fresh = Index::new().insert(&alone).unwrap().view_of_all();
        // Equal to the last bit of each score.
        prop_assert_eq!(found(&view, &query), found(&fresh, &query));
        prop_assert_eq!(view.tokens(), fresh.tokens());
        for place in 0..view.len() {
            prop_assert_eq!(view.definition(place), fresh.definition(place));
        }
    }
}
