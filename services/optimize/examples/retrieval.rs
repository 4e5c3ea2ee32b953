//! Measures how many of the wanted tools a search finds.
//!
//! The folder has `tools.jsonl` (lines with `server`, `name`, `description` and `inputSchema`), and files of queries,
//! `tasks.jsonl` and `steps.jsonl` (lines with `query`, and in `tools` the line numbers of the wanted tools, from 0). The
//! embedding service is a text-embeddings-inference server, or one with OpenAI's API if its URL ends in `/v1`.
//!
//! ```sh
//! cargo run -p vmcp-optimize --example retrieval -- tests/data/tool-retrieval [http://127.0.0.1:8080]
//! ```

use std::collections::HashSet;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use url::Url;
use vmcp_core::{Body, Clock};
use vmcp_optimize::{
    Embedder, EmbeddingService, Index, Query, SearchOptions, ToolDefinition, ToolSearch, View,
};

/// Numbers of results at which the recall is measured.
const CUTOFFS: [usize; 2] = [5, 8];

/// Query and the places of the tools that answer it.
struct Sample {
    query: Query,
    wanted: HashSet<usize>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: retrieval FOLDER [EMBEDDING-SERVICE]")?;
    let folder = Path::new(&folder);
    let tools = lines(&folder.join("tools.jsonl"))?.iter().map(definition).collect::<Vec<_>>();
    let index = Index::new();
    let set = index.insert(&tools)?;
    let view = set.view_of_all();
    let embedder = match arguments.next() {
        Some(url) => Some(embedder(&url)?),
        None => None,
    };
    if let Some(embedder) = &embedder {
        embedder.prepare(&set);
        while embedder.status().pending_sets > 0 {
            if let Some(outage) = embedder.status().outage {
                return Err(outage.to_string().into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    println!(
        "{:10} {:9} {:>7} {:>6} {:>6} {:>8}",
        "queries", "arms", "number", "R@5", "R@8", "found@8"
    );
    for file in ["tasks", "steps"] {
        let path = folder.join(file).with_extension("jsonl");
        let samples = lines(&path)?.iter().map(sample).collect::<Option<Vec<_>>>();
        let samples = samples.ok_or("a line without query or tools")?;
        let arms = [("keyword", 0.0), ("semantic", 1.0), ("hybrid", 0.5)];
        for (arm, ratio) in arms.iter().take(if embedder.is_some() { 3 } else { 1 }) {
            let options = SearchOptions { semantic_ratio: *ratio, ..SearchOptions::default() };
            let mut search = ToolSearch::new(options);
            if let Some(embedder) = &embedder {
                search = search.embedder(embedder.clone());
            }
            let (recall, found) = measure(&search, &view, &samples).await;
            let number = samples.len();
            println!("{file:10} {arm:9} {number:7} {:6.1} {:6.1} {found:8}", recall[0], recall[1]);
        }
    }
    Ok(())
}

/// Returns the average recall in percent at each cutoff, and the number of wanted tools among the first eight.
#[expect(clippy::cast_precision_loss, reason = "counts of tools are small")]
async fn measure(search: &ToolSearch, view: &View, samples: &[Sample]) -> ([f64; 2], usize) {
    let (mut recall, mut found) = ([0.0; 2], 0);
    for sample in samples {
        let response = search.search(view, &sample.query).await;
        for (recall, cutoff) in recall.iter_mut().zip(CUTOFFS) {
            let first = response.tools.iter().take(cutoff);
            let hits = first.filter(|tool| sample.wanted.contains(&tool.place)).count();
            *recall += 100.0 * hits as f64 / sample.wanted.len() as f64 / samples.len() as f64;
            found += if cutoff == CUTOFFS[1] { hits } else { 0 };
        }
    }
    (recall, found)
}

fn embedder(url: &str) -> Result<Embedder, Box<dyn Error>> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    // Generous: a model on a busy processor takes long for a batch.
    let service = EmbeddingService::new(&Url::parse(url)?, client)?.timeout(Duration::from_mins(5));
    Ok(Embedder::new(service, Clock::system()))
}

fn definition(line: &Value) -> ToolDefinition {
    let server = line["server"].as_str().unwrap_or_default().into();
    ToolDefinition { server, json: line.to_string().into() }
}

fn sample(line: &Value) -> Option<Sample> {
    let wanted = line["tools"].as_array()?.iter();
    let wanted = wanted.map(|at| at.as_u64().and_then(|at| usize::try_from(at).ok()));
    Some(Sample {
        query: Query::new(line["query"].as_str()?),
        wanted: wanted.collect::<Option<_>>()?,
    })
}

fn lines(path: &Path) -> Result<Vec<Value>, Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}
