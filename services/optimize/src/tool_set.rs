//! Sets of tools, such as one catalog, and the views that callers have of them.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::document::Document;
use crate::interner::InternedValue;
use crate::set_data::{SetData, stored};
use crate::terms::Vocabulary;

/// Number of bytes that count as a token.
const BYTES_PER_TOKEN: usize = 4;

/// Place of a tool that a view does not contain.
const HIDDEN: u32 = u32::MAX;

/// Set of tools in an [`Index`](crate::Index), such as those of one catalog. Its tools stay in the index while it or one of its
/// [`View`]s exists. Clones are the same set.
#[derive(Clone)]
pub struct ToolSet {
    data: Arc<InternedValue<SetData>>,
    vocabulary: Arc<Vocabulary>,
}

/// Tools of a set that one caller may see. Searches return these only, and count no others: scores, order and number of
/// results are those of a set of these tools alone.
///
/// A view is small, and should be cached for as long as the caller's permissions stay the same. Clones are the same view.
#[derive(Clone)]
pub struct View(Arc<ViewData>);

struct ViewData {
    set: ToolSet,
    /// Position in the set of each tool of the view, ascending.
    positions: Box<[u32]>,
    /// Place in the view of each tool of the set, or [`HIDDEN`]. Absent in a view of all tools.
    places: Option<Box<[u32]>>,
    total_length: u64,
    tokens: u64,
}

/// Error of a view with a tool that its set does not have.
#[derive(Debug, thiserror::Error)]
#[error("failed to create a view: the set has {len} tools, and none at position {position}")]
pub struct PositionError {
    /// The position.
    pub position: usize,
    /// Number of tools of the set.
    pub len: usize,
}

// === impl ToolSet ===

impl ToolSet {
    pub(crate) fn new(data: Arc<InternedValue<SetData>>, vocabulary: Arc<Vocabulary>) -> Self {
        Self { data, vocabulary }
    }

    /// Returns the number of tools.
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.documents().len()
    }

    /// Returns `true` if the set has no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the view of all tools.
    #[must_use]
    pub fn view_of_all(&self) -> View {
        self.new_view((0..self.len()).map(stored).collect(), None)
    }

    /// Returns the view of the tools at `positions` of the slice that was inserted. Their order and repetitions do not
    /// matter.
    ///
    /// # Errors
    /// The set has no tool at one of the positions.
    pub fn view(&self, positions: impl IntoIterator<Item = usize>) -> Result<View, PositionError> {
        let len = self.len();
        let mut places = vec![HIDDEN; len].into_boxed_slice();
        for position in positions {
            *places.get_mut(position).ok_or(PositionError { position, len })? = 0;
        }
        let mut positions = Vec::new();
        for (place, at) in places.iter_mut().zip(0..) {
            if *place != HIDDEN {
                *place = stored(positions.len());
                positions.push(at);
            }
        }
        if positions.len() == len {
            return Ok(self.view_of_all());
        }
        Ok(self.new_view(positions.into(), Some(places)))
    }

    pub(crate) fn data(&self) -> &Arc<InternedValue<SetData>> {
        &self.data
    }

    fn new_view(&self, positions: Box<[u32]>, places: Option<Box<[u32]>>) -> View {
        let (mut total_length, mut tokens) = (0, 0);
        for at in &positions {
            let document = self.data.document(*at as usize);
            total_length += u64::from(document.length);
            tokens += token_count(&document.definition);
        }
        View(Arc::new(ViewData { set: self.clone(), positions, places, total_length, tokens }))
    }
}

/// Returns an estimate of the number of tokens of `json`: a quarter of its bytes.
pub(crate) fn token_count(json: &[u8]) -> u64 {
    (json.len() / BYTES_PER_TOKEN) as u64
}

// === impl View ===

impl View {
    /// Returns the number of tools.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.positions.len()
    }

    /// Returns `true` if the view has no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the definition of a tool as it was inserted, by its place in the view.
    #[must_use]
    pub fn definition(&self, at: usize) -> Option<&Bytes> {
        self.document(at).map(|document| &document.definition)
    }

    /// Returns the name of a tool, by its place in the view.
    #[must_use]
    pub fn name(&self, at: usize) -> Option<&str> {
        self.document(at).map(|document| &*document.name)
    }

    /// Returns the server of a tool, by its place in the view.
    #[must_use]
    pub fn server(&self, at: usize) -> Option<&str> {
        self.document(at).map(|document| &*document.server)
    }

    /// Returns an estimate of the number of tokens of all definitions: the sum of a quarter of the bytes of each.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.0.tokens
    }

    pub(crate) fn set(&self) -> &ToolSet {
        &self.0.set
    }

    pub(crate) fn vocabulary(&self) -> &Vocabulary {
        &self.0.set.vocabulary
    }

    /// Returns the sum of the lengths of the tools, in [`UNITS`](crate::document::UNITS).
    pub(crate) fn total_length(&self) -> u64 {
        self.0.total_length
    }

    /// Returns the position in the set of each tool of the view.
    pub(crate) fn positions(&self) -> &[u32] {
        &self.0.positions
    }

    /// Returns the place in the view of the tool at a position of the set.
    pub(crate) fn place(&self, position: u32) -> Option<u32> {
        match &self.0.places {
            None => Some(position),
            Some(places) => places.get(position as usize).copied().filter(|place| *place != HIDDEN),
        }
    }

    /// Returns the number of a tool's server in the set, by the tool's place in the view.
    pub(crate) fn server_number(&self, place: u32) -> usize {
        self.0.set.data.server(self.0.positions[place as usize])
    }

    /// Returns `true` for a view of all tools of its set.
    pub(crate) fn has_all(&self) -> bool {
        self.0.places.is_none()
    }

    fn document(&self, at: usize) -> Option<&Document> {
        let position = self.0.positions.get(at)?;
        Some(self.0.set.data.document(*position as usize))
    }
}

// === Debug ===

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolSet").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("len", &self.len()).finish_non_exhaustive()
    }
}
