//! Compares the cost of the index with that of the bare `bm25` crate over the same texts, in CPU time of one thread.
//!
//! The crate scores texts without fields, views, stems and stop words, so it is the lower bound. The last rows show that neither
//! sessions nor reloads slow a search down or leave memory behind. Run with
//! `cargo run --release -p vmcp-optimize --example search_cost`.

use std::error::Error;
use std::fs;
use std::hint::black_box;

use bm25::{Embedder, EmbedderBuilder, Scorer, Tokenizer};
use serde_json::json;
use vmcp_optimize::{Index, Query, SearchOptions, ToolDefinition, ToolSearch, View};

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

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    measure(1000, 50_000).await?;
    measure(10_000, 1000).await
}

/// Measures `count` tools, 1,000 sessions and some reloads, each with one changed tool.
async fn measure(count: usize, reloads: u32) -> Result<(), Box<dyn Error>> {
    let mut random = Random(count as u64 + 1);
    let texts: Vec<_> = (0..count).map(|_| random.words(30)).collect();
    let tools: Vec<_> = texts.iter().enumerate().map(|(at, text)| tool(at, text)).collect();
    let queries: Vec<_> = (0..1000).map(|_| Query::new(random.words(8))).collect();

    // Several times, because the system counts in steps of milliseconds.
    let builds = 100_000 / count;
    let (bare_build, ()) = cpu(|| (0..builds).for_each(|_| drop(bare(&texts))))?;
    let bare = bare(&texts);
    let (build, ()) = cpu(|| (0..builds).for_each(|_| drop(Index::new().insert(&tools))))?;
    let index = Index::new();
    let set = index.insert(&tools)?;
    println!("{count} tools, 1,000 queries of 8 words");
    report(&format!("{builds} first indexes"), build, bare_build);

    let find = |query: &Query| drop(black_box(bare.1.matches(&bare.0.embed(&query.description))));
    let (bare_query, ()) = cpu(|| queries.iter().for_each(find))?;
    let search = ToolSearch::new(SearchOptions::default());
    let query = searches(&search, &set.view_of_all(), &queries).await?;
    report("search", query, bare_query);
    let part = searches(&search, &set.view((0..count).filter(|at| at % 10 > 0))?, &queries).await?;
    report("search of a view of 90 %", part, bare_query);
    let sessions = (0..1000).map(|_| index.insert(&tools)).collect::<Result<Vec<_>, _>>()?;
    let mut reloaded = tools.clone();
    let (mut current, mut reload, mut pages) = (set, 0.0, Vec::new());
    for at in 0..reloads as usize {
        reloaded[at % count] = tool(at % count, &format!("{} {at}", texts[at % count]));
        let (time, set) = cpu(|| index.insert(&reloaded))?;
        (current, reload) = (set?, reload + time);
        // After the first tenth, the heap has room for two sets.
        if (at + 1) % (reloads as usize / 10) == 0 {
            pages.push(number("/proc/self/statm", 1)?);
        }
    }
    // In turn, because other programs share the processor's caches.
    let (fresh, mut times) = (Index::new().insert(&reloaded)?.view_of_all(), [0.0; 2]);
    for _ in 0..10 {
        times[0] += searches(&search, &current.view_of_all(), &queries).await? / 10.0;
        times[1] += searches(&search, &fresh, &queries).await? / 10.0;
    }
    report(&format!("after {reloads} reloads, against a new index"), times[0], times[1]);
    println!("  a reload of one tool takes {:.1} us", reload / f64::from(reloads) / 1000.0);
    // Read before the new index, which needs as much again.
    println!("  pages of memory after each tenth of the reloads: {pages:?}");
    println!("  {:?}, {} sessions", index.counts(), sessions.len());
    Ok(())
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

/// Returns the CPU time of all searches in nanoseconds, the average of 10 rounds.
async fn searches(
    search: &ToolSearch,
    view: &View,
    queries: &[Query],
) -> Result<f64, Box<dyn Error>> {
    let began = cpu_time()?;
    for query in queries.iter().cycle().take(10 * queries.len()) {
        black_box(search.search(view, query).await);
    }
    Ok((cpu_time()? - began) / 10.0)
}

fn report(what: &str, ours: f64, other: f64) {
    let ratio = ours / other;
    println!("  {what:45} {:9.1} us / {:9.1} us = {ratio:.2}", ours / 1000.0, other / 1000.0);
}

/// Returns the CPU time of a function in nanoseconds, and its result.
fn cpu<T>(run: impl FnOnce() -> T) -> Result<(f64, T), Box<dyn Error>> {
    let began = cpu_time()?;
    let result = run();
    Ok((cpu_time()? - began, result))
}

/// Returns the CPU time of this thread in nanoseconds.
fn cpu_time() -> Result<f64, Box<dyn Error>> {
    number("/proc/thread-self/schedstat", 0)
}

/// Returns a number of a file by its place in it.
fn number(path: &str, at: usize) -> Result<f64, Box<dyn Error>> {
    Ok(fs::read_to_string(path)?.split_whitespace().nth(at).ok_or("too short")?.parse()?)
}
