//! Searches of a view by keywords and by meaning.

use std::fmt;

use crate::embedding::{Embedder, FallbackReason};
use crate::fusion::{ARM_DEPTH, ToolMatch, fuse};
use crate::hit::{Hit, best, boost_servers};
use crate::keyword;
use crate::query::Query;
use crate::tool_set::{ToolSet, View};
use crate::vector::{SetVectors, Vector};

/// Maximum number of tools of a response.
pub const MAX_RESULTS: usize = 50;

/// Settings of a [`ToolSearch`].
///
/// # Defaults
/// `semantic_ratio` 0.5, `max_tools` 8, `max_distance` 1.0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchOptions {
    /// Weight of meaning against keywords, from 0 (keywords only) to 1 (meaning only).
    pub semantic_ratio: f32,
    /// Maximum number of tools of a response, up to [`MAX_RESULTS`].
    pub max_tools: usize,
    /// Maximum cosine distance of tools that are found by meaning, from 0 (identical) to 2.
    pub max_distance: f32,
}

/// Search for tools by keywords, and by meaning if there is an [`Embedder`].
#[derive(Clone)]
pub struct ToolSearch {
    options: SearchOptions,
    embedder: Option<Embedder>,
}

/// Result of a search.
#[derive(Clone, Debug)]
pub struct SearchResult {
    /// The tools, best first.
    pub tools: Vec<ToolMatch>,
    /// Arms that were searched.
    pub mode: SearchMode,
}

/// Arms of a search.
#[derive(Clone, Debug)]
pub enum SearchMode {
    /// Keywords and meaning.
    Hybrid,
    /// Meaning only, as configured.
    Semantic,
    /// Keywords only, as configured, or for a reason.
    Keyword(Option<FallbackReason>),
}

impl ToolSearch {
    /// Creates a search by keywords only.
    #[must_use]
    pub fn new(options: SearchOptions) -> Self {
        Self { options, embedder: None }
    }

    /// Starts to embed the tools of a set in the background, so that its first search need not wait. Does nothing without an
    /// embedder. Requires a tokio runtime.
    pub fn prepare(&self, set: &ToolSet) {
        if let Some(embedder) = &self.embedder {
            embedder.prepare(set);
        }
    }

    /// Returns `true` if it searches by meaning.
    #[must_use]
    pub fn has_embedder(&self) -> bool {
        self.embedder.is_some()
    }

    /// Searches by meaning, too. With a ratio of 0, the embedder is not used.
    #[must_use]
    pub fn embedder(mut self, embedder: Embedder) -> Self {
        self.embedder = (self.options.semantic_ratio > 0.0).then_some(embedder);
        self
    }

    /// Returns the tools of `view` that match `query` best. Takes at most 2 s, and never fails: when embeddings are not there
    /// in that time, it searches by keywords only.
    pub async fn search(&self, view: &View, query: &Query) -> SearchResult {
        let max = query.max.filter(|max| *max > 0).unwrap_or(self.options.max_tools);
        let max = max.clamp(1, MAX_RESULTS);
        if view.is_empty() || query.text().is_empty() && query.keywords.is_empty() {
            return SearchResult { tools: Vec::new(), mode: SearchMode::Keyword(None) };
        }
        let (semantic, fallback) = match &self.embedder {
            Some(embedder) if !query.text().is_empty() => {
                match embedder.vectors(view.set(), query.text()).await {
                    Ok((vector, vectors)) => (Some(self.semantic(view, &vector, &vectors)), None),
                    Err(reason) => (None, Some(reason)),
                }
            }
            _ => (None, None),
        };
        let ratio = self.options.semantic_ratio;
        let (mode, keyword) = match &semantic {
            Some(_) if ratio >= 1.0 => (SearchMode::Semantic, Vec::new()),
            Some(_) => (SearchMode::Hybrid, keyword_hits(view, query)),
            None => (SearchMode::Keyword(fallback), keyword_hits(view, query)),
        };
        let tools = fuse(&keyword, &semantic.unwrap_or_default(), ratio, max);
        SearchResult { tools, mode }
    }

    /// Returns the settings.
    #[must_use]
    pub fn options(&self) -> &SearchOptions {
        &self.options
    }

    /// Returns the nearest tools of a view within the maximum distance. Their measures are distances.
    fn semantic(&self, view: &View, query: &Vector, vectors: &SetVectors) -> Vec<Hit> {
        let hits = view.positions().iter().zip(0..).filter_map(|(position, place)| {
            let score = query.similarity(vectors.rows.get(*position as usize)?.as_ref()?);
            let measure = 1.0 - score;
            (measure <= self.options.max_distance).then_some(Hit { place, score, measure })
        });
        let mut hits = hits.collect::<Vec<_>>();
        boost_servers(view, &mut hits);
        best(hits, ARM_DEPTH)
    }
}

fn keyword_hits(view: &View, query: &Query) -> Vec<Hit> {
    keyword::search(view, &query.terms(view.vocabulary()), ARM_DEPTH)
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { semantic_ratio: 0.5, max_tools: 8, max_distance: 1.0 }
    }
}

impl fmt::Debug for ToolSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolSearch").field("options", &self.options).finish_non_exhaustive()
    }
}
