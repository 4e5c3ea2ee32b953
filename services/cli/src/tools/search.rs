//! `vmcp tools search`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use vmcp_core::{CallerPermissions, Identity};
use vmcp_optimize::{
    ArmRank, FallbackReason, Query, SearchMode, SearchResult, View, find_tool_result,
};

use crate::authz::args::identity_of;
use crate::config::{ConfigFile, LoadedConfig};
use crate::output::{Failure, OutputArgs, OutputFormat, block_on, eprint_line, print, print_json};
use crate::session::Session;
use crate::table::{plain, table};

/// Time to wait until the tools are embedded.
const EMBEDDING_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between searches while the tools are being embedded.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Arguments of `vmcp tools search`.
#[derive(Debug, Args)]
pub(crate) struct Search {
    /// The purpose of the tool, in a sentence.
    #[arg(value_name = "DESCRIPTION")]
    description: String,
    /// A word of the tool's name or description. Repeatable.
    #[arg(long, value_name = "WORD")]
    keyword: Vec<String>,
    #[command(flatten)]
    config: ConfigFile,
    /// The claims of the caller's token, a JSON object; without it, a caller without a token searches.
    #[arg(long = "as", value_name = "FILE")]
    claims: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

impl Search {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let identity = self.claims.as_deref().map_or_else(
            || Ok(Identity::anonymous()),
            |claims| identity_of(claims, "leave out --as"),
        )?;
        if self.description.trim().is_empty() {
            return Err(Failure::Usage("DESCRIPTION must not be empty".to_owned()));
        }
        block_on(self.search(identity))
    }

    async fn search(self, identity: Identity) -> Result<(), Failure> {
        let LoadedConfig { parts, warnings, .. } = self.config.require()?;
        for warning in warnings {
            eprint_line(&format!("warning: {warning}"));
        }
        if parts.settings.optimizer.is_none() {
            let message = "the configuration has no optimizer, so that clients list all tools; \
                           add \"optimizer: {}\" for a search by keywords";
            return Err(Failure::Error(message.to_owned()));
        }
        let permissions = parts.incoming_auth.policy_evaluator().permissions(&identity);
        let query = Query { description: self.description, keywords: self.keyword, max: None };
        let session = Session::start(parts).await?;
        let found = search_embedded(&session, &permissions, &query).await;
        let (unreachable, not_searched) = (session.unreachable(), session.per_caller_backends());
        session.close().await;
        for line in &unreachable {
            eprint_line(&plain(line));
        }
        let (view, found) =
            found.ok_or_else(|| Failure::Error("the policies or the index failed".to_owned()))?;
        let result: Value = serde_json::from_slice(&find_tool_result(&view, &found).json)
            .map_err(|error| Failure::Error(format!("a definition is not valid JSON: {error}")))?;
        let result = &result["structuredContent"];
        match self.output.format {
            OutputFormat::Json => print_json(&as_json(&view, &found, result, &not_searched)),
            OutputFormat::Text => print(&as_text(&view, &found, result, &not_searched)),
        }
        Ok(())
    }
}

/// Searches, again while the tools are being embedded.
async fn search_embedded(
    session: &Session,
    permissions: &CallerPermissions,
    query: &Query,
) -> Option<(View, SearchResult)> {
    let deadline = Instant::now() + EMBEDDING_TIMEOUT;
    loop {
        let found = session.search_tools(permissions, query).await?;
        let is_preparing =
            matches!(found.1.mode, SearchMode::Keyword(Some(FallbackReason::Preparing)));
        if !is_preparing || Instant::now() > deadline {
            return Some(found);
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns the error of the embedding service, for which the search used keywords only.
fn service_error(found: &SearchResult) -> Option<String> {
    match &found.mode {
        SearchMode::Keyword(Some(FallbackReason::Unavailable(error))) => Some(error.to_string()),
        _ => None,
    }
}

fn as_json(view: &View, found: &SearchResult, result: &Value, not_searched: &[String]) -> Value {
    let arm = |arm: &Option<ArmRank>, measure: &str| {
        arm.map(|arm| json!({"rank": arm.rank, measure: arm.score}))
    };
    let tools = found.tools.iter().map(|tool| {
        json!({
            "name": view.name(tool.place),
            "backend": view.server(tool.place),
            "score": tool.score,
            "keyword": arm(&tool.keyword, "score"),
            "semantic": arm(&tool.semantic, "distance"),
        })
    });
    json!({
        "tools": tools.collect::<Vec<_>>(),
        "visibleTools": view.len(),
        "notSearched": not_searched,
        "embeddingServiceError": service_error(found),
        "result": result,
    })
}

fn as_text(view: &View, found: &SearchResult, result: &Value, not_searched: &[String]) -> String {
    let arm = |arm: &Option<ArmRank>| {
        arm.map_or_else(|| "-".to_owned(), |arm| format!("{} ({:.3})", arm.rank, arm.score))
    };
    let rows: Vec<_> = found
        .tools
        .iter()
        .map(|tool| {
            vec![
                view.name(tool.place).unwrap_or_default().to_owned(),
                view.server(tool.place).unwrap_or_default().to_owned(),
                format!("{:.4}", tool.score),
                arm(&tool.keyword),
                arm(&tool.semantic),
            ]
        })
        .collect();
    let search = &result["search"];
    let mut out = format!("mode: {}", search["mode"].as_str().unwrap_or_default());
    if let Some(reason) = service_error(found).as_deref().or(search["reason"].as_str()) {
        out.extend([" (", &*plain(reason), ")"]);
    }
    out.push('\n');
    if !rows.is_empty() {
        let heading =
            ["TOOL", "BACKEND", "SCORE", "KEYWORDS: RANK (BM25)", "MEANING: RANK (DISTANCE)"];
        out.push_str(&table(&heading, &rows));
    }
    let tokens = &result["token_metrics"];
    let numbers = [&tokens["returned_tokens"], &tokens["baseline_tokens"]];
    let summary = format!(
        "{} of {} visible tools, {} of {} tokens\n",
        rows.len(),
        view.len(),
        numbers[0],
        numbers[1]
    );
    out.push_str(&summary);
    for backend in not_searched {
        let reason = "its tools depend on the caller's credentials";
        out.extend(["backend ", &*plain(backend), " is not searched: ", reason, "\n"]);
    }
    out
}
