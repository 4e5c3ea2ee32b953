//! Keyword search: BM25 over weighted fields, with the statistics of one view.

use crate::document::UNITS;
use crate::hit::{Hit, best, boost_servers};
use crate::query::QueryTerm;
use crate::segment::Posting;
use crate::tool_set::View;

/// Saturation of repeated words. Above the common 1.2, because a word of a name counts as three.
const K1: f32 = 1.5;

/// Part of a tool's length that lowers its score.
const B: f32 = 0.8;

/// Returns the `depth` best tools of `view`, best first, equal ones in the order of the view.
pub(crate) fn search(view: &View, terms: &[QueryTerm], depth: usize) -> Vec<Hit> {
    let set = view.set().data();
    let mut scores = Scores { scores: vec![0.0; set.documents().len()], found: Vec::new() };
    for term in terms {
        let segments = set.segments().iter();
        let matches: Vec<_> = segments
            .map(|it| (it.segment.postings(term.hash), &*it.positions))
            .filter(|(postings, _)| !postings.is_empty())
            .collect();
        scores.add(view, *term, &matches);
    }
    let Scores { scores, found } = scores;
    let hits = found.iter().filter_map(|at| {
        let score = scores[*at as usize];
        Some(Hit { place: view.place(*at)?, score, measure: score })
    });
    let mut hits = hits.collect::<Vec<_>>();
    boost_servers(view, &mut hits);
    best(hits, depth)
}

/// Scores of the tools of a set, by position, and the positions with a score.
struct Scores {
    scores: Vec<f32>,
    found: Vec<u32>,
}

impl Scores {
    /// Adds the scores of one term. `matches` are its postings in each segment, with the positions of the segment's tools.
    #[expect(clippy::cast_precision_loss, reason = "counts of tools and words are small")]
    fn add(&mut self, view: &View, term: QueryTerm, matches: &[(&[Posting], &[u32])]) {
        let position = |posting: &Posting, positions: &[u32]| positions[posting.local as usize];
        let count = |(postings, positions): &(&[Posting], &[u32])| {
            if view.has_all() {
                return postings.len();
            }
            let visible = |posting: &&Posting| view.place(position(posting, positions)).is_some();
            postings.iter().filter(visible).count()
        };
        let with_term = matches.iter().map(count).sum::<usize>() as f32;
        let count = view.len() as f32;
        let idf = (1.0 + (count - with_term + 0.5) / (with_term + 0.5)).ln();
        let factor = term.weight * idf * (K1 + 1.0);
        let average_length = view.total_length() as f32 / count;
        let set = view.set().data();
        for (postings, positions) in matches {
            for posting in *postings {
                let at = position(posting, positions);
                if view.place(at).is_none() {
                    continue;
                }
                let frequency = f32::from(posting.frequency) / f32::from(UNITS);
                let length = set.length(at) as f32 / average_length;
                let score = &mut self.scores[at as usize];
                if *score == 0.0 {
                    self.found.push(at);
                }
                *score += factor * frequency / (frequency + K1 * (1.0 - B + B * length));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bm25::{EmbedderBuilder, Scorer, Tokenizer};
    use serde_json::json;

    use super::*;
    use crate::index::{Index, ToolDefinition};
    use crate::query::Query;
    use crate::terms::Analyzer;

    struct Whitespace;

    impl Tokenizer for Whitespace {
        fn tokenize(&self, text: &str) -> Vec<String> {
            text.split_whitespace().map(str::to_owned).collect()
        }
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "places of a small set")]
    fn scores_are_those_of_bm25_crate() {
        let (index, analyzer) = (Index::new(), Analyzer::new());
        let texts = [
            ("read_file", "Reads a file from the disk"),
            ("writeFile", "Writes text to a file"),
            ("search", "Searches files for a text, file by file"),
            ("weather", "Forecast of the next days"),
        ];
        let json =
            |(name, text): &(&str, &str)| json!({"name": name, "description": text}).to_string();
        let tool = |text| ToolDefinition { server: "disk".into(), json: json(text).into() };
        let set = index.insert(&texts.iter().map(tool).collect::<Vec<_>>()).unwrap();
        // The same terms as often as they count here: a name's three times, and each UNITS times.
        let corpus: Vec<String> = texts
            .iter()
            .map(|(name, text)| {
                let text = format!("{name} {name} {name} {text} disk ").repeat(UNITS.into());
                analyzer.terms(&text).join(" ")
            })
            .collect();
        let corpus: Vec<_> = corpus.iter().map(String::as_str).collect();
        let units = f32::from(UNITS);
        let embedder =
            EmbedderBuilder::<u32, _>::with_tokenizer_and_fit_to_corpus(Whitespace, &corpus);
        let embedder = embedder.k1(K1 * units).b(B).build();
        let mut scorer = Scorer::<usize>::new();
        for (place, text) in corpus.iter().enumerate() {
            scorer.upsert(&place, embedder.embed(text));
        }
        for query in ["file", "write a text file", "disk forecast"] {
            let terms = analyzer.terms(query).join(" ");
            let expected = scorer.matches(&embedder.embed(&terms));
            let view = set.view_of_all();
            let hits = search(&view, &Query::new(query).terms(view.vocabulary()), 10);
            assert_eq!(hits.len(), expected.len(), "{query}");
            for expected in expected {
                let hit = hits.iter().find(|hit| hit.place == expected.id as u32).unwrap();
                let score = expected.score * (K1 + 1.0) / (K1 * units + 1.0);
                assert!((hit.measure - score).abs() < 1e-4, "{query}: {hit:?}, not {score}");
            }
        }
    }
}
