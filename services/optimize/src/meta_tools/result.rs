//! The result of a search, as clients receive it.

use std::fmt::Write as _;

use bytes::Bytes;
use vmcp_wire::{Span, Splice, find_span, write_json_string};

use crate::embedding::FallbackReason;
use crate::search::{SearchMode, SearchResult};
use crate::tool_set::{View, token_count};

/// Key of a tool's score in its `_meta`.
pub const SCORE_META_KEY: &str = "vmcp.dev/score";

/// Maximum size of all definitions of a result, in bytes. Definitions that do not fit are left out, and counted.
pub const MAX_DEFINITIONS_SIZE: usize = 1024 * 1024;

/// Result of `find_tool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindToolResult {
    /// The `CallToolResult` of MCP.
    pub json: Bytes,
    /// Tokens of all tools of the view.
    pub baseline_tokens: u64,
    /// Tokens of the returned tools.
    pub returned_tokens: u64,
}

/// Returns the result of `find_tool` (`CallToolResult` of MCP): one JSON object, as text content and as `structuredContent`.
///
/// | Member | Value |
/// |---|---|
/// | `tools` | the definitions as they were inserted, best first, each with its score in `_meta["vmcp.dev/score"]` |
/// | `token_metrics` | `baseline_tokens` of all tools of the view, `returned_tokens`, and `savings_percent` |
/// | `search` | `mode`: `hybrid`, `semantic` or `keyword`; `reason`, if keywords stood in for an embedding service; `omitted`, the number of tools that were found and are too large |
///
/// A token is four bytes of a definition, counted for each definition apart.
#[must_use]
pub fn find_tool_result(view: &View, found: &SearchResult) -> FindToolResult {
    let (content, returned_tokens) = content(view, found);
    let text = String::from_utf8_lossy(&content);
    let mut result = Vec::with_capacity(content.len() * 5 / 2 + 64);
    result.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
    write_json_string(&text, &mut result);
    result.extend_from_slice(br#"}],"structuredContent":"#);
    result.extend_from_slice(&content);
    result.push(b'}');
    FindToolResult { json: result.into(), baseline_tokens: view.tokens(), returned_tokens }
}

fn content(view: &View, found: &SearchResult) -> (Vec<u8>, u64) {
    let mut content = br#"{"tools":["#.to_vec();
    let (mut returned, mut omitted) = (0, 0);
    let mut separator: &[u8] = b"";
    for tool in &found.tools {
        let Some(definition) = view.definition(tool.place) else { continue };
        if content.len() + definition.len() > MAX_DEFINITIONS_SIZE {
            omitted += 1;
            continue;
        }
        content.extend_from_slice(separator);
        content.extend_from_slice(&with_score(definition, tool.score));
        returned += token_count(definition);
        separator = b",";
    }
    let mut rest = String::new();
    write_metrics(&mut rest, view.tokens(), returned);
    write_search(&mut rest, &found.mode, omitted);
    content.extend_from_slice(rest.as_bytes());
    (content, returned)
}

/// Returns the definition with a score in its `_meta`, in place of one that the server of the tool wrote.
fn with_score(definition: &Bytes, score: f32) -> Bytes {
    let whole = Span::whole(definition);
    let mut splice = Splice::new(definition);
    let score = score.to_string();
    let meta = find_span(definition, whole, "_meta");
    if let Some(meta) = meta.filter(|meta| meta.of(definition).starts_with(b"{")) {
        splice.set_member(meta, SCORE_META_KEY, score.as_bytes());
    } else {
        let meta = format!(r#"{{"{SCORE_META_KEY}":{score}}}"#);
        splice.set_member(whole, "_meta", meta.as_bytes());
    }
    splice.finish()
}

fn write_metrics(out: &mut String, baseline: u64, returned: u64) {
    #[expect(clippy::cast_precision_loss, reason = "numbers of tokens are far below 2^52")]
    let savings = if baseline == 0 {
        0.0
    } else {
        (baseline as f64 - returned as f64) / baseline as f64 * 100.0
    };
    // Writing to a string does not fail.
    let _ = write!(
        out,
        r#"],"token_metrics":{{"baseline_tokens":{baseline},"returned_tokens":{returned},"savings_percent":{savings}}}"#
    );
}

fn write_search(out: &mut String, mode: &SearchMode, omitted: usize) {
    let (mode, reason) = match mode {
        SearchMode::Hybrid => ("hybrid", None),
        SearchMode::Semantic => ("semantic", None),
        SearchMode::Keyword(reason) => ("keyword", reason.as_ref()),
    };
    let _ = write!(out, r#","search":{{"mode":"{mode}""#);
    if let Some(reason) = reason {
        let _ = write!(out, r#","reason":"{}""#, reason_text(reason));
    }
    if omitted > 0 {
        let _ = write!(out, r#","omitted":{omitted}"#);
    }
    out.push_str("}}");
}

/// Returns a reason for clients. It names no address: the cause is for the operator.
fn reason_text(reason: &FallbackReason) -> &'static str {
    match reason {
        FallbackReason::Preparing => {
            "the tools are still being embedded; search again later for better results"
        }
        FallbackReason::Slow => "the embedding service is slow",
        FallbackReason::Busy => "the embedding service is busy",
        FallbackReason::Unavailable(_) => "the embedding service is unavailable",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::embedding::EmbeddingError;
    use crate::fusion::ToolMatch;
    use crate::index::{Index, ToolDefinition};

    fn view(definitions: &[&str]) -> View {
        let tool = |json: &&str| ToolDefinition {
            server: "s".into(),
            json: Bytes::copy_from_slice(json.as_bytes()),
        };
        let tools: Vec<_> = definitions.iter().map(tool).collect();
        Index::new().insert(&tools).unwrap().view_of_all()
    }

    fn found(places: &[usize], mode: SearchMode) -> SearchResult {
        let tool =
            |place: &usize| ToolMatch { place: *place, score: 0.5, keyword: None, semantic: None };
        SearchResult { tools: places.iter().map(tool).collect(), mode }
    }

    fn structured(view: &View, found: &SearchResult) -> Value {
        let result: Value = serde_json::from_slice(&find_tool_result(view, found).json).unwrap();
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
        result["structuredContent"].clone()
    }

    #[test]
    fn definitions_keep_their_bytes() {
        let view = view(&[r#"{"name":"a","x":1.00,"_meta":{"k":2e0}}"#, r#"{ "name" : "b" }"#]);
        let result = find_tool_result(&view, &found(&[1, 0], SearchMode::Hybrid));
        let result = String::from_utf8(result.json.to_vec()).unwrap();
        let tools = concat!(
            r#""tools":[{ "name" : "b" ,"_meta":{"vmcp.dev/score":0.5}},"#,
            r#"{"name":"a","x":1.00,"_meta":{"k":2e0,"vmcp.dev/score":0.5}}],"#
        );
        assert!(result.contains(tools), "{result}");
    }

    #[test]
    fn score_replaces_one_of_the_server() {
        for forged in [r#"{"vmcp.dev/score":9}"#, "null", "[]"] {
            let view = view(&[&format!(r#"{{"name":"a","_meta":{forged}}}"#)]);
            let content = structured(&view, &found(&[0], SearchMode::Hybrid));
            assert_eq!(content["tools"][0]["_meta"], json!({"vmcp.dev/score": 0.5}), "{forged}");
        }
    }

    #[test]
    fn metrics_count_whole_tokens() {
        let view = view(&[r#"{"name":"a12"}"#, r#"{"name":"b","description":"abcdefgh"}"#]);
        let content = structured(&view, &found(&[0], SearchMode::Hybrid));
        let expected = json!({"baseline_tokens": 12, "returned_tokens": 3, "savings_percent": 75});
        assert_eq!(content["token_metrics"], expected);
        let nothing = structured(&self::view(&[]), &found(&[], SearchMode::Hybrid));
        assert_eq!(nothing["tools"], json!([]));
        assert_eq!(nothing["token_metrics"]["savings_percent"], 0.0);
    }

    #[test]
    fn mode_tells_reason() {
        let view = view(&[r#"{"name":"a"}"#]);
        let search = |mode| structured(&view, &found(&[0], mode))["search"].clone();
        assert_eq!(search(SearchMode::Semantic), json!({"mode": "semantic"}));
        assert_eq!(search(SearchMode::Keyword(None)), json!({"mode": "keyword"}));
        let error = Arc::new(EmbeddingError::Malformed("secret".to_owned()));
        let away = SearchMode::Keyword(Some(FallbackReason::Unavailable(error)));
        let expected = json!({"mode": "keyword", "reason": "the embedding service is unavailable"});
        assert_eq!(search(away), expected);
    }

    #[test]
    fn huge_definitions_are_omitted() {
        let huge = format!(r#"{{"name":"a","x":"{}"}}"#, "x".repeat(MAX_DEFINITIONS_SIZE));
        let content =
            structured(&view(&[&huge, r#"{"name":"b"}"#]), &found(&[0, 1], SearchMode::Hybrid));
        assert_eq!(content["tools"].as_array().unwrap().len(), 1);
        assert_eq!(content["search"]["omitted"], 1);
    }
}
