//! Searches of the optimizer in this process, compared with the `bm25` crate over the same texts, which scores them without
//! fields, views, stems and stop words.

use std::hint::black_box;

use bm25::{Embedder, EmbedderBuilder, Scorer, Tokenizer};
use serde_json::json;
use vmcp_optimize::{Index, Query, SearchOptions, ToolDefinition, ToolSearch};

use super::super::Effort;
use super::super::table::Comparison;
use super::{Samples, cpu_time};
use crate::BoxError;

/// Searches a repetition, each for eight words.
const SEARCHES: u64 = 1_000;

struct LowerCase;

impl Tokenizer for LowerCase {
    fn tokenize(&self, text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_lowercase).collect()
    }
}

/// Generator of texts (xorshift), the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Returns a word, which is more frequent the lower its number is.
    fn word(&mut self) -> String {
        let bound = self.below(4000) + 1;
        let number = self.below(bound).to_string();
        // In letters, because numbers would be words of their own.
        "qu".chars().chain(number.bytes().map(|digit| char::from(digit - b'0' + b'a'))).collect()
    }

    fn words(&mut self, count: usize) -> String {
        (0..count).map(|_| self.word() + " ").collect()
    }
}

/// Measures a search among `count` tools in microseconds of CPU time.
pub(super) async fn measure(count: usize, effort: Effort) -> Result<Comparison, BoxError> {
    let mut random = Random(count as u64 + 1);
    let texts: Vec<_> = (0..count).map(|_| random.words(30)).collect();
    let tools: Vec<_> = texts.iter().enumerate().map(|(at, text)| tool(at, text)).collect();
    let number = u32::try_from(effort.scaled(SEARCHES))?;
    let queries: Vec<_> = (0..number).map(|_| Query::new(random.words(8))).collect();
    let (embedder, scorer) = bare(&texts);
    let view = Index::new().insert(&tools)?.view_of_all();
    let search = ToolSearch::new(SearchOptions::default());
    let mut samples = Samples::default();
    for _ in 0..effort.repetitions {
        let start = cpu_time()?;
        for query in &queries {
            if black_box(search.search(&view, query).await).tools.is_empty() {
                return Err("a search finds nothing".into());
            }
        }
        let middle = cpu_time()?;
        for query in &queries {
            black_box(scorer.matches(&embedder.embed(&query.description)));
        }
        let per_search = |time: f64| time / f64::from(number);
        samples.push(per_search(middle - start), per_search(cpu_time()? - middle));
    }
    Ok(samples.comparison())
}

fn bare(texts: &[String]) -> (Embedder<u32, LowerCase>, Scorer<usize>) {
    let corpus: Vec<_> = texts.iter().map(String::as_str).collect();
    let builder = EmbedderBuilder::with_tokenizer_and_fit_to_corpus(LowerCase, &corpus);
    let (embedder, mut scorer) = (builder.build(), Scorer::new());
    for (at, text) in texts.iter().enumerate() {
        scorer.upsert(&at, embedder.embed(text));
    }
    (embedder, scorer)
}

fn tool(at: usize, text: &str) -> ToolDefinition {
    let (name, description) = text.split_once(' ').unwrap_or((text, ""));
    let json = json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
    ToolDefinition { server: format!("server{}", at % 20).into(), json: json.to_string().into() }
}
