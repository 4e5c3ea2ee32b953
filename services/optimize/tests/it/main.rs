//! Tests of searches as a gateway uses them.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod embedders;
mod embeddings;
mod lifetimes;
mod retrieval;
mod views;

use vmcp_optimize::{Query, SearchOptions, ToolDefinition, ToolMatch, ToolSearch, View};

/// Returns a tool.
fn tool(server: &str, name: &str, description: &str) -> ToolDefinition {
    let json = serde_json::json!({"name": name, "description": description});
    ToolDefinition { server: server.into(), json: json.to_string().into() }
}

/// Returns some tools of three servers.
fn tools() -> Vec<ToolDefinition> {
    vec![
        tool("github", "createIssue", "Opens a ticket in a repository"),
        tool("github", "search_code", "Searches source code"),
        tool("weather", "get_forecast", "Weather of the next days in a city"),
        tool("weather", "get_alerts", "Storm warnings of a region"),
        tool("files", "write_file", "Writes text to a file"),
    ]
}

/// Searches by keywords.
async fn search(view: &View, query: &str) -> Vec<ToolMatch> {
    ToolSearch::new(SearchOptions::default()).search(view, &Query::new(query)).await.tools
}

/// Returns the names of found tools, best first.
fn names<'a>(view: &'a View, found: &[ToolMatch]) -> Vec<&'a str> {
    found.iter().map(|tool| view.name(tool.place).unwrap()).collect()
}
