//! Numbers of searches and of the tokens that they saved.

use std::sync::atomic::{AtomicU64, Ordering};

use vmcp_optimize::{FindToolResult, SearchMode};

use crate::status::SearchCounts;

/// Counters of searches. Each is read alone, so that no order among them matters.
#[derive(Debug, Default)]
pub(crate) struct SearchCounters {
    hybrid: AtomicU64,
    semantic: AtomicU64,
    keyword: AtomicU64,
    fallback: AtomicU64,
    baseline_tokens: AtomicU64,
    returned_tokens: AtomicU64,
}

impl SearchCounters {
    pub(crate) fn record(&self, mode: &SearchMode, result: &FindToolResult) {
        let searches = match mode {
            SearchMode::Hybrid => &self.hybrid,
            SearchMode::Semantic => &self.semantic,
            SearchMode::Keyword(None) => &self.keyword,
            SearchMode::Keyword(Some(_)) => &self.fallback,
        };
        searches.fetch_add(1, Ordering::Relaxed);
        self.baseline_tokens.fetch_add(result.baseline_tokens, Ordering::Relaxed);
        self.returned_tokens.fetch_add(result.returned_tokens, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> SearchCounts {
        SearchCounts {
            hybrid: self.hybrid.load(Ordering::Relaxed),
            semantic: self.semantic.load(Ordering::Relaxed),
            keyword: self.keyword.load(Ordering::Relaxed),
            fallback: self.fallback.load(Ordering::Relaxed),
            baseline_tokens: self.baseline_tokens.load(Ordering::Relaxed),
            returned_tokens: self.returned_tokens.load(Ordering::Relaxed),
        }
    }
}
