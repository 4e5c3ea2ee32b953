//! Configuration errors. A reader reports all of them at once, each with its path.

use std::fmt;

use serde::Serialize;

/// Maximum number of errors that are kept. Further errors are only counted.
pub(crate) const KEPT: usize = 200;

/// Value of [`Mistake::found`] for a key that the object does not have.
pub(crate) const UNKNOWN_KEY: &str = "an unknown key";

/// One thing in a document that has to be changed before it can be used.
///
/// Prints as one line. Serialises as `{path, line?, found, allowed, suggestion?}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// Path from the root of the document: `backends[1].transport`. Empty for the document itself.
    pub path: String,
    /// The line, counted from 1. Absent when the document was read as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Found value. Values of secret fields are never quoted.
    pub found: String,
    /// Allowed values.
    pub allowed: String,
    /// Suggested correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// All mistakes of one document, in document order. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(transparent)]
pub struct Mistakes {
    list: Vec<Mistake>,
    #[serde(skip)]
    beyond: usize,
}

/// Something that is legal and probably not what was meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Path, as in [`Mistake::path`].
    pub path: String,
    /// Consequence of the setting.
    pub message: String,
    /// Suggested correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

// === impl Mistake ===

impl Mistake {
    /// A mistake that turned up after the document was read, and so stands in no known line of it.
    #[must_use]
    pub fn new(
        path: impl Into<String>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        let (path, found, allowed) = (path.into(), found.into(), allowed.into());
        Self { path, line: None, found, allowed, suggestion: None }
    }

    /// Returns `true` if the error is an unknown key.
    #[must_use]
    pub fn is_unknown_key(&self) -> bool {
        self.found == UNKNOWN_KEY
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "found {}; allowed: {}", self.found, self.allowed)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, " (did you mean {suggestion}?)"),
            None => Ok(()),
        }
    }
}

// === impl Mistakes ===

impl Mistakes {
    pub(crate) fn gather(mut list: Vec<Mistake>, beyond: usize) -> Option<Self> {
        if list.is_empty() {
            return None;
        }
        // Stable: mistakes on one line stay in the order in which the fields are described.
        list.sort_by_key(|mistake| mistake.line.unwrap_or(0));
        Some(Self { list, beyond })
    }

    pub(crate) fn one(mistake: Mistake) -> Self {
        Self { list: vec![mistake], beyond: 0 }
    }

    /// The mistakes, at most 200.
    #[must_use]
    pub fn as_slice(&self) -> &[Mistake] {
        &self.list
    }

    /// The mistakes, one by one.
    pub fn iter(&self) -> std::slice::Iter<'_, Mistake> {
        self.list.iter()
    }

    /// Returns the total number of errors, including those that were not kept.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len() + self.beyond
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            mistake.fmt(f)?;
        }
        if self.beyond > 0 {
            write!(f, "\nand {} more", self.beyond)?;
        }
        Ok(())
    }
}

impl<'a> IntoIterator for &'a Mistakes {
    type Item = &'a Mistake;
    type IntoIter = std::slice::Iter<'a, Mistake>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

// === impl Warning ===

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, " (did you mean {suggestion}?)"),
            None => Ok(()),
        }
    }
}
