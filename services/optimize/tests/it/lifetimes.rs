//! Content of the index, and its lifetime.

use vmcp_optimize::{Index, IndexCounts, IndexError, ToolDefinition};

use super::{names, search, tool, tools};

fn counts(tools: usize, segments: usize, sets: usize) -> IndexCounts {
    IndexCounts { tools, segments, sets }
}

#[test]
fn equal_sets_are_one() {
    let index = Index::new();
    let sets: Vec<_> = (0..1000).map(|_| index.insert(&tools()).unwrap()).collect();
    assert_eq!(index.counts(), counts(5, 3, 1));
    drop(sets);
    assert_eq!(index.counts(), counts(0, 0, 0));
}

#[test]
fn changed_tool_is_indexed_alone() {
    let index = Index::new();
    let before = index.insert(&tools()).unwrap();
    let mut changed = tools();
    changed[0] = tool("github", "createIssue", "Opens a bug");
    let after = index.insert(&changed).unwrap();
    // One tool more, and the segment of its server; the other two servers' segments are shared.
    assert_eq!(index.counts(), counts(6, 4, 2));
    drop(before);
    assert_eq!(index.counts(), counts(5, 3, 1));
    drop(after);
    assert_eq!(index.counts(), counts(0, 0, 0));
}

#[tokio::test]
async fn view_keeps_its_tools() {
    let index = Index::new();
    let view = index.insert(&tools()).unwrap().view([2, 3]).unwrap();
    assert_eq!(index.counts(), counts(5, 3, 1));
    assert_eq!(
        names(&view, &search(&view, "storm in the city").await),
        ["get_alerts", "get_forecast"]
    );
    drop(view);
    assert_eq!(index.counts(), counts(0, 0, 0));
}

#[test]
fn reloads_leave_nothing_behind() {
    let index = Index::new();
    let mut current = index.insert(&tools()).unwrap();
    for reload in 0..200 {
        let mut tools = tools();
        tools.push(tool("files", &format!("tool_{reload}"), "Changes with each reload"));
        current = index.insert(&tools).unwrap();
        assert_eq!(index.counts(), counts(6, 3, 1));
    }
    drop(current);
    assert_eq!(index.counts(), counts(0, 0, 0));
}

#[test]
fn error_names_tool_and_leaves_nothing() {
    let index = Index::new();
    let mut tools = tools();
    tools.push(ToolDefinition { server: "files".into(), json: r#"{"title":"x"}"#.into() });
    let error = index.insert(&tools).unwrap_err();
    assert!(matches!(&error, IndexError::Definition { position: 5, .. }), "{error}");
    assert!(
        error.to_string().starts_with(r#"failed to index tool 5 of server "files": "#),
        "{error}"
    );
    assert_eq!(index.counts(), counts(0, 0, 0));
}

#[test]
fn many_servers_share_segments() {
    let index = Index::new();
    let tools: Vec<_> = (0..1000).map(|at| tool(&format!("s{at}"), "read", "Reads")).collect();
    let _set = index.insert(&tools).unwrap();
    assert!(index.counts().segments <= 64, "{:?}", index.counts());
}
