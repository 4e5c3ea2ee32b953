//! Tools of a set, and their postings.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use vmcp_core::Fingerprint;

use crate::document::Document;
use crate::interner::InternedValue;
use crate::segment::Segment;
use crate::vector::SetVectors;

/// Tools of a set, by position.
pub(crate) struct SetData {
    documents: Box<[Arc<InternedValue<Document>>]>,
    /// Number of each tool's server, by position.
    servers: Box<[u32]>,
    /// Length of each tool, by position: a search reads many of them.
    lengths: Box<[u32]>,
    server_count: usize,
    segments: Vec<SetSegment>,
    /// Embeddings of the tools, once all of them are there.
    vectors: Mutex<Option<Arc<SetVectors>>>,
}

/// Segment of a set.
pub(crate) struct SetSegment {
    pub(crate) segment: Arc<InternedValue<Segment>>,
    /// Position in the set of each tool of the segment.
    pub(crate) positions: Box<[u32]>,
}

impl SetData {
    pub(crate) fn new(documents: Box<[Arc<InternedValue<Document>>]>) -> Self {
        let mut numbers = HashMap::new();
        let servers = documents.iter().map(|document| {
            let next = stored(numbers.len());
            *numbers.entry(&*document.server).or_insert(next)
        });
        let servers = servers.collect();
        let server_count = numbers.len();
        let lengths = documents.iter().map(|document| document.length).collect();
        Self {
            documents,
            servers,
            lengths,
            server_count,
            segments: Vec::new(),
            vectors: Mutex::default(),
        }
    }

    /// Returns the positions of the tools of each segment: one for each server, or `max` that each have several servers.
    pub(crate) fn groups(&self, max: usize) -> Vec<Vec<u32>> {
        let mut groups = vec![Vec::new(); self.server_count.min(max)];
        for ((document, server), at) in self.documents.iter().zip(&self.servers).zip(0..) {
            // By the name where servers share: a server that comes or goes leaves the groups of the others as they are.
            let group = if self.server_count <= max {
                *server as usize
            } else {
                usize::from(Fingerprint::of(&*document.server).0[0]) % max
            };
            groups[group].push(at);
        }
        groups.retain(|group| !group.is_empty());
        groups
    }

    pub(crate) fn add_segment(
        &mut self,
        segment: Arc<InternedValue<Segment>>,
        positions: Box<[u32]>,
    ) {
        self.segments.push(SetSegment { segment, positions });
    }

    /// Returns the segments.
    pub(crate) fn segments(&self) -> &[SetSegment] {
        &self.segments
    }

    pub(crate) fn document(&self, position: usize) -> &Arc<InternedValue<Document>> {
        &self.documents[position]
    }

    pub(crate) fn documents(&self) -> &[Arc<InternedValue<Document>>] {
        &self.documents
    }

    /// Returns the length of a tool, in [`UNITS`](crate::document::UNITS).
    pub(crate) fn length(&self, position: u32) -> u32 {
        self.lengths[position as usize]
    }

    pub(crate) fn server(&self, position: u32) -> usize {
        self.servers[position as usize] as usize
    }

    /// Returns the place of the embeddings.
    pub(crate) fn vectors(&self) -> &Mutex<Option<Arc<SetVectors>>> {
        &self.vectors
    }

    pub(crate) fn server_count(&self) -> usize {
        self.server_count
    }
}

/// Returns a position as it is stored.
pub(crate) fn stored(at: usize) -> u32 {
    u32::try_from(at).expect("a set has at most MAX_TOOLS tools")
}
