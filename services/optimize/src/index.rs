//! The index of all tools, by their content.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use vmcp_core::Fingerprint;

use crate::document::Document;
use crate::interner::{InternedValue, Interner};
use crate::segment::Segment;
use crate::set_data::SetData;
use crate::terms::{TermHashes, Vocabulary};
use crate::tool_set::ToolSet;

/// Maximum number of tools of a set.
pub const MAX_TOOLS: usize = 100_000;

/// Number of servers from which the tools of several servers share a segment, so that a search does not look into too many.
const MAX_SEGMENTS: usize = 64;

/// Index of tools that all sets share.
///
/// A tool is indexed once for all sets that contain it, and leaves the index with the last of them. The tools of a server
/// are one segment that sets share, too. Clones share the index.
#[derive(Clone)]
pub struct Index(Arc<Shared>);

struct Shared {
    vocabulary: Arc<Vocabulary>,
    documents: Arc<Interner<Document>>,
    segments: Arc<Interner<Segment>>,
    sets: Arc<Interner<SetData>>,
}

/// Tool that is inserted into an [`Index`].
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    /// Name of the server that offers the tool.
    pub server: Arc<str>,
    /// The tool as clients see it in a list: a JSON object with `name`, and optionally `title`, `description` and
    /// `inputSchema`.
    pub json: Bytes,
}

/// Sizes of an index, for gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexCounts {
    /// Number of different tools.
    pub tools: usize,
    /// Number of different groups of tools.
    pub segments: usize,
    /// Number of different sets.
    pub sets: usize,
}

/// Error of tools that cannot be indexed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// A definition is not a JSON object with a `name`.
    #[error(
        "failed to index tool {position} of server {server:?}: its definition is not a JSON object with a name; leave it out"
    )]
    Definition {
        /// Position of the tool in the set.
        position: usize,
        /// Server of the tool.
        server: Arc<str>,
    },
    /// The set has more than [`MAX_TOOLS`] tools.
    #[error(
        "failed to index {found} tools: a set has at most {MAX_TOOLS}; remove backends or filter their tools"
    )]
    TooManyTools {
        /// Number of tools.
        found: usize,
    },
}

impl Index {
    /// Creates an index without tools.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            vocabulary: Arc::new(Vocabulary::new()),
            documents: Interner::new(),
            segments: Interner::new(),
            sets: Interner::new(),
        }))
    }

    /// Inserts a set of tools, in the order in which results of equal rank appear. Only tools that no other set contains are
    /// parsed and indexed; a set with the same tools in the same order is the same set.
    ///
    /// # Errors
    /// A definition is not a JSON object with a name, or there are too many.
    pub fn insert(&self, tools: &[ToolDefinition]) -> Result<ToolSet, IndexError> {
        if tools.len() > MAX_TOOLS {
            return Err(IndexError::TooManyTools { found: tools.len() });
        }
        let mut terms = TermHashes::new(&self.0.vocabulary);
        let documents = tools.iter().enumerate().map(|(position, tool)| {
            let key = Fingerprint::of(&(&*tool.server, &*tool.json));
            let make = || {
                let (server, json) = (Arc::clone(&tool.server), tool.json.clone());
                Document::new(server, json, &mut terms).ok_or_else(|| IndexError::Definition {
                    position,
                    server: Arc::clone(&tool.server),
                })
            };
            self.0.documents.intern(key, make)
        });
        let documents = documents.collect::<Result<Box<[_]>, _>>()?;
        let keys: Vec<_> = documents.iter().map(|document| document.key()).collect();
        let make = || Ok::<_, Infallible>(self.set_of(documents));
        let Ok(set) = self.0.sets.intern(Fingerprint::of(&keys), make);
        Ok(ToolSet::new(set, Arc::clone(&self.0.vocabulary)))
    }

    /// Returns the sizes.
    #[must_use]
    pub fn counts(&self) -> IndexCounts {
        IndexCounts {
            tools: self.0.documents.len(),
            segments: self.0.segments.len(),
            sets: self.0.sets.len(),
        }
    }

    fn set_of(&self, documents: Box<[Arc<InternedValue<Document>>]>) -> SetData {
        let mut set = SetData::new(documents);
        for positions in set.groups(MAX_SEGMENTS) {
            let documents = positions.iter().map(|at| Arc::clone(set.document(*at as usize)));
            let documents: Box<[_]> = documents.collect();
            let keys: Vec<_> = documents.iter().map(|document| document.key()).collect();
            let make = || Ok::<_, Infallible>(Segment::new(documents));
            let Ok(segment) = self.0.segments.intern(Fingerprint::of(&keys), make);
            set.add_segment(segment, positions.into());
        }
        set
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
