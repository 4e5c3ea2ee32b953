//! Configuration errors. A reader reports all of them at once, each with its path.

use std::fmt;

use serde::Serialize;

/// Maximum number of reported errors. Further errors are only counted.
pub(crate) const MAX_ERRORS: usize = 200;

/// Value of [`ConfigError::found`] for a key that the object does not have.
pub(crate) const UNKNOWN_KEY: &str = "an unknown key";

/// Error in a configuration document.
///
/// Prints as one line. Serializes as `{path, line?, found, allowed, suggestion?}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigError {
    /// Path from the root of the document: `backends[1].transport`. Empty for the document itself.
    pub path: String,
    /// Line, counted from 1. Absent if the document was read as JSON.
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

/// All errors of a document, in document order. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(transparent)]
pub struct ConfigErrors {
    list: Vec<ConfigError>,
    #[serde(skip)]
    omitted: usize,
}

/// Warning about a setting that is valid but probably unintended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Path, as in [`ConfigError::path`].
    pub path: String,
    /// Consequence of the setting.
    pub message: String,
    /// Suggested correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

// === impl ConfigError ===

impl ConfigError {
    /// Creates an error without a line, such as one that is found after the document was read.
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

impl fmt::Display for ConfigError {
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

// === impl ConfigErrors ===

impl ConfigErrors {
    pub(crate) fn from_list(mut list: Vec<ConfigError>, omitted: usize) -> Option<Self> {
        if list.is_empty() {
            return None;
        }
        // Stable: errors on one line stay in the order in which the fields are described.
        list.sort_by_key(|error| error.line.unwrap_or(0));
        Some(Self { list, omitted })
    }

    pub(crate) fn single(error: ConfigError) -> Self {
        Self { list: vec![error], omitted: 0 }
    }

    /// Returns the errors, at most 200.
    #[must_use]
    pub fn as_slice(&self) -> &[ConfigError] {
        &self.list
    }

    /// Returns an iterator over the errors, at most 200.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.list.iter()
    }

    /// Returns the total number of errors, including omitted ones.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len() + self.omitted
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        if self.omitted > 0 {
            write!(f, "\nand {} more", self.omitted)?;
        }
        Ok(())
    }
}

impl<'a> IntoIterator for &'a ConfigErrors {
    type Item = &'a ConfigError;
    type IntoIter = std::slice::Iter<'a, ConfigError>;

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
