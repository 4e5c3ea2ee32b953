//! Paths of the root data that a template reads.

/// Read of the root data, known without rendering.
///
/// A path that ends at a value reads everything below it: `{{json .steps}}` reads all steps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Path {
    pub(crate) segments: Vec<Segment>,
    pub(crate) access: Access,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// Segment of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// Key of a map: `.name` or `index … "name"`.
    Key(String),
    /// Index of an array: `index … 2`.
    Index(usize),
    /// Any key or index: an element of `range`, or `index` by a value that only the rendering knows.
    Any,
}

/// Purpose of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// The template uses the value with all that it contains.
    Value,
    /// The template only tests whether the value is empty (`if`, `with`, `and`, `or`, `not`), or keeps it in a variable or
    /// as the data of a `template`, whose uses are paths of their own.
    Condition,
}

impl Path {
    /// Returns the segments from the root. Without segments, the template reads all data.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the purpose of the read.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns whether only the rendering knows one of the segments.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.segments.contains(&Segment::Any)
    }

    /// Returns the line of the read in the template, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the column of the read in its line: characters, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }
}
