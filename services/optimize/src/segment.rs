//! Postings of the tools of one server.

use std::hash::BuildHasherDefault;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::document::Document;
use crate::interner::InternedValue;
use crate::terms::TermHasher;

/// Inverted index of a group of tools. It never changes: a group with another tool is another segment.
pub(crate) struct Segment {
    /// Range of the postings of a term.
    ranges: HashMap<u64, Range<u32>, BuildHasherDefault<TermHasher>>,
    postings: Box<[Posting]>,
    /// Keeps the documents in use, so that the next segment with one of them does not index it again.
    _documents: Box<[Arc<InternedValue<Document>>]>,
}

/// Occurrences of a term in a tool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Posting {
    /// Position of the tool in the segment.
    pub(crate) local: u32,
    /// Number of occurrences in units of [`UNITS`](crate::document::UNITS).
    pub(crate) frequency: u16,
}

impl Segment {
    pub(crate) fn new(documents: Box<[Arc<InternedValue<Document>>]>) -> Self {
        let mut ranges = HashMap::<u64, Range<u32>, _>::default();
        // Counting sort: first the number of postings of each term as the end of its range, then their places.
        for term in documents.iter().flat_map(|document| &document.terms) {
            ranges.entry(*term).or_insert(0..0).end += 1;
        }
        let mut start = 0;
        for range in ranges.values_mut() {
            let length = range.end;
            *range = start..start;
            start += length;
        }
        let mut postings = vec![Posting::default(); start as usize];
        for (document, local) in documents.iter().zip(0..) {
            for (term, frequency) in document.terms.iter().zip(&document.frequencies) {
                if let Some(range) = ranges.get_mut(term) {
                    postings[range.end as usize] = Posting { local, frequency: *frequency };
                    range.end += 1;
                }
            }
        }
        ranges.shrink_to_fit();
        Self { ranges, postings: postings.into(), _documents: documents }
    }

    /// Returns the postings of a term.
    pub(crate) fn postings(&self, term: u64) -> &[Posting] {
        let range = self.ranges.get(&term).cloned().unwrap_or_default();
        self.postings.get(range.start as usize..range.end as usize).unwrap_or_default()
    }
}
