//! Quality of searches by keywords, on the measuring set.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use vmcp_optimize::{Index, ToolDefinition, View};

use super::search;

fn lines(file: &str) -> Vec<Value> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tool-retrieval");
    let text = fs::read_to_string(folder.join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn view() -> View {
    let lines = lines("tools.jsonl");
    let tools = lines.iter().map(|line| ToolDefinition {
        server: line["server"].as_str().unwrap().into(),
        json: line.to_string().into(),
    });
    Index::new().insert(&tools.collect::<Vec<_>>()).unwrap().view_of_all()
}

/// Returns the number of wanted tools of each query, and the number of those that were found.
async fn measure(view: &View, file: &str) -> Vec<(usize, usize)> {
    let mut counts = Vec::new();
    for sample in lines(file) {
        let wanted = sample["tools"].as_array().unwrap().iter();
        let wanted: HashSet<_> = wanted.map(|at| at.as_u64().unwrap()).collect();
        let found = search(view, sample["query"].as_str().unwrap()).await;
        let hits = found.iter().filter(|tool| wanted.contains(&(tool.place as u64))).count();
        counts.push((wanted.len(), hits));
    }
    counts
}

#[tokio::test]
#[expect(clippy::cast_precision_loss, reason = "counts of tools are small")]
async fn recall_by_keywords_stays() {
    let view = view();
    let steps: usize = measure(&view, "steps.jsonl").await.iter().map(|(_, hits)| hits).sum();
    assert!(steps >= 69, "{steps} of 95");
    let tasks = measure(&view, "tasks.jsonl").await;
    let recall = tasks.iter().map(|(wanted, hits)| *hits as f64 / *wanted as f64).sum::<f64>();
    let recall = 100.0 * recall / tasks.len() as f64;
    assert!(recall >= 46.0, "{recall}");
}
