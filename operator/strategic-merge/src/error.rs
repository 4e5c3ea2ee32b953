//! Errors of patches.

use std::fmt;

/// Error of a strategic merge patch, or of the object that it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchError {
    /// Names of the fields down to the error.
    path: Vec<String>,
    kind: PatchErrorKind,
}

/// Kind of [`PatchError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchErrorKind {
    /// The object or the patch is not a JSON object.
    #[error("the object and its patch have to be JSON objects")]
    NotAnObject,
    /// The type has no object or list in this field.
    #[error(
        "the type has no field of this name that could be merged; correct the name or the value"
    )]
    UnknownField,
    /// A directive has a value of another type, or no name of a field.
    #[error("{0} is malformed; see Kubernetes' documentation of strategic merge patches")]
    MalformedDirective(String),
    /// `$patch` has a value that is not allowed here.
    #[error("\"$patch\": {0} is not allowed here; use \"replace\" or \"delete\"")]
    UnknownDirective(String),
    /// A field of the patch is missing in `$retainKeys`.
    #[error("the patch sets {0:?}, but $retainKeys does not have it; add it there")]
    NotRetained(String),
    /// An item has no merge key.
    #[error("an item has no {0:?}, by which items are merged; add it")]
    MissingMergeKey(String),
    /// The list of objects has no merge key.
    #[error("this list of objects has no merge key")]
    NoMergeKey,
    /// The items have several types.
    #[error("the items have several types; use one")]
    MixedItems,
    /// Items are lists.
    #[error("items that are lists cannot be merged")]
    ListOfLists,
    /// The order of the items differs from that of `$setElementOrder`.
    #[error("the items of the patch are not in the order of $setElementOrder, or missing there")]
    DifferentOrder,
    /// `$setElementOrder` for lists without items.
    #[error("$setElementOrder orders a list without items; remove it")]
    NothingToOrder,
}

impl PatchError {
    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> &PatchErrorKind {
        &self.kind
    }

    /// Returns the names of the fields down to the error, joined by dots.
    #[must_use]
    pub fn path(&self) -> String {
        self.path.join(".")
    }

    /// Adds the name of the field that contains the error.
    pub(crate) fn within(mut self, field: &str) -> Self {
        self.path.insert(0, field.to_owned());
        self
    }
}

impl From<PatchErrorKind> for PatchError {
    fn from(kind: PatchErrorKind) -> Self {
        Self { path: Vec::new(), kind }
    }
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path.join("."))?;
        }
        self.kind.fmt(f)
    }
}

impl std::error::Error for PatchError {}
