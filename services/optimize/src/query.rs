//! Queries, and the terms that they search for.

mod hints;

use std::collections::HashMap;

use crate::document::truncated;
use crate::terms::Vocabulary;

/// Maximum length of the description and of all keywords together that a search reads, in bytes. The rest is ignored.
pub const MAX_QUERY_TEXT: usize = 4 * 1024;

/// Maximum number of different terms of a query. Later ones are ignored.
const MAX_TERMS: usize = 128;

/// Weight of the words of a description beside keywords: they decide between tools that the keywords find alike.
const DESCRIPTION_WEIGHT: f32 = 0.5;

/// Query for tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Description of the wanted tools or of a task, in any language. Searched by meaning, and by its words.
    pub description: String,
    /// Keywords. Searched by word only, where they weigh more than the words of the description.
    pub keywords: Vec<String>,
    /// Maximum number of tools to return, or the configured number.
    pub max: Option<usize>,
}

/// Term of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QueryTerm {
    pub(crate) hash: u64,
    pub(crate) weight: f32,
}

impl Query {
    /// Creates a query without keywords.
    #[must_use]
    pub fn new(description: impl Into<String>) -> Self {
        Self { description: description.into(), ..Self::default() }
    }

    /// Returns the description as far as it is read.
    pub(crate) fn text(&self) -> &str {
        truncated(&self.description, MAX_QUERY_TEXT).trim()
    }

    /// Returns the different terms in the order in which they occur.
    pub(crate) fn terms(&self, vocabulary: &Vocabulary) -> Vec<QueryTerm> {
        let mut terms = TermList { vocabulary, terms: Vec::new(), places: HashMap::new() };
        let mut left = MAX_QUERY_TEXT;
        for keyword in &self.keywords {
            let keyword = truncated(keyword, left);
            left -= keyword.len();
            terms.add_text(keyword, 1.0);
        }
        let weight = if terms.terms.is_empty() { 1.0 } else { DESCRIPTION_WEIGHT };
        terms.add_text(self.text(), weight);
        terms.terms
    }
}

/// Terms of a query so far.
struct TermList<'a> {
    vocabulary: &'a Vocabulary,
    terms: Vec<QueryTerm>,
    /// Place of each term in the list.
    places: HashMap<u64, usize>,
}

impl TermList<'_> {
    fn add_text(&mut self, text: &str, weight: f32) {
        let analyzer = self.vocabulary.analyzer();
        let mut implied = Vec::new();
        if hints::has_path(text) {
            implied.push(hints::PATH);
        }
        analyzer.for_each(text, |term| {
            implied.extend(hints::implied_by(term));
            self.add(term, weight);
        });
        for text in implied {
            analyzer.for_each(text, |term| self.add(term, weight));
        }
    }

    fn add(&mut self, term: &str, weight: f32) {
        let hash = self.vocabulary.hash(term);
        let next = self.terms.len();
        let place = *self.places.entry(hash).or_insert(next);
        if place == next && next < MAX_TERMS {
            self.terms.push(QueryTerm { hash, weight });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(query: &Query, words: &[&str]) -> Vec<Option<f32>> {
        let vocabulary = Vocabulary::new();
        let terms = query.terms(&vocabulary);
        let weight = |word: &&str| {
            let hash = vocabulary.hash(word);
            terms.iter().find(|term| term.hash == hash).map(|term| term.weight)
        };
        words.iter().map(weight).collect()
    }

    #[test]
    fn keywords_outweigh_description() {
        let mut query = Query::new("open a ticket");
        assert_eq!(weights(&query, &["open", "ticket", "github"]), [Some(1.0), Some(1.0), None]);
        query.keywords = vec!["github".into(), "ticket".into()];
        let half = Some(DESCRIPTION_WEIGHT);
        assert_eq!(weights(&query, &["open", "ticket", "github"]), [half, Some(1.0), Some(1.0)]);
        // Keywords of stop words alone are none.
        query.keywords = vec!["the".into()];
        assert_eq!(weights(&query, &["open"]), [Some(1.0)]);
    }

    #[test]
    fn situations_imply_terms() {
        let query = Query::new("Save it as /home/me/talk.pptx tomorrow");
        let words = ["file", "write", "powerpoint", "present", "date"];
        assert_eq!(weights(&query, &words), [Some(1.0); 5]);
    }

    #[test]
    fn large_queries_are_truncated() {
        let vocabulary = Vocabulary::new();
        let words: Vec<_> = (0..300_000).map(|number| format!("w{number}")).collect();
        let words = words.join(" ");
        let query = Query { keywords: vec![words.clone(); 3], ..Query::new(words) };
        assert!(query.terms(&vocabulary).len() <= MAX_TERMS);
        assert!(query.text().len() <= MAX_QUERY_TEXT);
        assert!(Query::new("é".repeat(1 << 20)).text().len() <= MAX_QUERY_TEXT);
    }

    #[test]
    fn texts_without_words_have_no_terms() {
        for text in ["", "   ", "!?…", "the and", "\u{0}\u{301}😀"] {
            assert!(Query::new(text).terms(&Vocabulary::new()).len() <= 1, "{text:?}");
        }
        assert!(Query::new("").terms(&Vocabulary::new()).is_empty());
    }
}
