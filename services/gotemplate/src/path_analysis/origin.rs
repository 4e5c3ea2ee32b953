//! Parts of the root data that a value can come from.

use crate::paths::Segment;

/// Maximum number of segments of one path.
const MAX_SEGMENTS: usize = 64;

/// Maximum number of paths of one value.
const MAX_PATHS: usize = 32;

/// Parts of the root data that a value can come from. Without paths, the value does not come from the root data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    paths: Vec<OriginPath>,
    /// Key that the value is, if it is a constant.
    constant: Option<Segment>,
}

/// Path of the root data, and the byte offset of the operand that names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct OriginPath {
    pub(super) at: usize,
    pub(super) segments: Vec<Segment>,
}

impl Origin {
    pub(super) fn root() -> Self {
        Self { paths: vec![OriginPath { at: 0, segments: Vec::new() }], constant: None }
    }

    pub(super) fn constant(segment: Segment) -> Self {
        Self { paths: Vec::new(), constant: Some(segment) }
    }

    pub(super) fn paths(&self) -> &[OriginPath] {
        &self.paths
    }

    /// Returns the segment that this value is as a key.
    pub(super) fn as_segment(&self) -> Segment {
        self.constant.clone().filter(|_| self.paths.is_empty()).unwrap_or(Segment::Any)
    }

    /// Sets the operand that names the value.
    pub(super) fn at(mut self, at: usize) -> Self {
        for path in &mut self.paths {
            path.at = at;
        }
        self
    }

    /// Returns the same paths for a value that is not a constant. That of a variable is unknown once another one is
    /// assigned to it.
    pub(super) fn without_constant(self) -> Self {
        Self { paths: self.paths, constant: None }
    }

    /// Returns the origin of an element of this value, or `None` if the path would be too long.
    pub(super) fn child(&self, segment: &Segment) -> Option<Self> {
        let mut paths = self.paths.clone();
        for path in &mut paths {
            if path.segments.len() == MAX_SEGMENTS {
                return None;
            }
            path.segments.push(segment.clone());
        }
        Some(Self { paths, constant: None })
    }

    /// Adds the paths of another value that this one can be. Returns whether they fit.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        if self.constant != other.constant {
            self.constant = None;
        }
        for path in &other.paths {
            if self.paths.iter().any(|known| known.segments == path.segments) {
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
