//! Parts of the root data that a value can come from.

use crate::paths::Segment;

/// Maximum number of segments of one path.
const MAX_SEGMENTS: usize = 64;

/// Maximum number of paths of one value.
const MAX_PATHS: usize = 32;

/// Parts of the root data that a value can come from. Without paths, the value does not come from the root data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    paths: Vec<Vec<Segment>>,
    /// Key that the value is, if it is a constant.
    constant: Option<Segment>,
}

impl Origin {
    pub(super) fn root() -> Self {
        Self { paths: vec![Vec::new()], constant: None }
    }

    pub(super) fn constant(segment: Segment) -> Self {
        Self { paths: Vec::new(), constant: Some(segment) }
    }

    pub(super) fn paths(&self) -> &[Vec<Segment>] {
        &self.paths
    }

    /// Returns the segment that this value is as a key.
    pub(super) fn as_segment(&self) -> Segment {
        self.constant.clone().filter(|_| self.paths.is_empty()).unwrap_or(Segment::Any)
    }

    /// Drops the constant that the value is. That of a variable is unknown once another one is assigned to it.
    pub(super) fn forget_constant(&mut self) {
        self.constant = None;
    }

    /// Returns the origin of an element of this value, or `None` if the path would be too long.
    pub(super) fn child(&self, segment: &Segment) -> Option<Self> {
        let mut paths = self.paths.clone();
        for path in &mut paths {
            if path.len() == MAX_SEGMENTS {
                return None;
            }
            path.push(segment.clone());
        }
        Some(Self { paths, constant: None })
    }

    /// Adds the paths of another value that this one can be. Returns whether they fit.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        if self.constant != other.constant {
            self.constant = None;
        }
        for path in &other.paths {
            if self.paths.contains(path) {
                continue;
            }
            if self.paths.len() == MAX_PATHS {
                return false;
            }
            self.paths.push(path.clone());
        }
        true
    }
}
