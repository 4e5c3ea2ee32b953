//! Position in the document and errors found while reading.

use std::path::{Path, PathBuf};

use crate::{
    error::{ConfigError, ConfigErrors, MAX_ERRORS},
    tree::{Node, shorten},
};

/// Reference to a file whose content the server reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReference {
    /// Path of the setting that names the file.
    pub setting: String,
    /// Path of the file.
    pub path: PathBuf,
}

/// The path to the value being read and the errors so far.
#[derive(Debug, Default)]
pub struct Context {
    /// Ignores errors and replaces invalid values by placeholders.
    is_lossy: bool,
    /// Range of the integer field being read.
    range: Option<(i64, i64)>,
    path: Vec<PathSegment>,
    errors: Vec<ConfigError>,
    /// Number of errors beyond `MAX_ERRORS`, which are only counted.
    omitted: usize,
    file_references: Vec<FileReference>,
}

#[derive(Debug)]
enum PathSegment {
    Key(String),
    Index(usize),
}

impl Context {
    /// Creates a context for a document whose errors are already known.
    pub(crate) fn lossy() -> Self {
        Self { is_lossy: true, ..Self::default() }
    }

    /// Returns `true` in lossy mode, which replaces invalid values by placeholders.
    pub(crate) fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    /// Calls `read` with `range` as the range of integers.
    pub(crate) fn with_range<T>(
        &mut self,
        range: Option<(i64, i64)>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let outer = std::mem::replace(&mut self.range, range);
        let value = read(self);
        self.range = outer;
        value
    }

    /// Returns the range of the integer field being read, if it has one.
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        self.range
    }

    pub(crate) fn at_key<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(PathSegment::Key(key.to_owned()));
        let value = read(self);
        self.path.pop();
        value
    }

    pub(crate) fn at_index<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(PathSegment::Index(index));
        let value = read(self);
        self.path.pop();
        value
    }

    pub(crate) fn at_keys<T>(&mut self, keys: &[&str], read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.extend(keys.iter().map(|key| PathSegment::Key((*key).to_owned())));
        let value = read(self);
        self.path.truncate(self.path.len() - keys.len());
        value
    }

    /// Records that the setting at the current path names a file.
    pub(crate) fn add_file_reference(&mut self, path: &Path) {
        self.file_references.push(FileReference { setting: self.path(), path: path.to_owned() });
    }

    pub(crate) fn file_references(self) -> Vec<FileReference> {
        self.file_references
    }

    /// Reports that the value of `node` is not allowed.
    pub(crate) fn reject(&mut self, node: &Node, allowed: impl Into<String>) {
        self.reject_as(node, node.describe(), allowed, None);
    }

    /// Reports that a value is not allowed, with a description of the found value.
    pub(crate) fn reject_as(
        &mut self,
        node: &Node,
        found: impl Into<String>,
        allowed: impl Into<String>,
        suggestion: Option<String>,
    ) {
        self.report(ConfigError {
            path: String::new(),
            line: node.line,
            found: found.into(),
            allowed: allowed.into(),
            suggestion,
        });
    }

    /// As [`Context::reject_as`] for the child `key` of `node`, which may be missing.
    pub(crate) fn reject_key(
        &mut self,
        node: &Node,
        key: &str,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        let at = node.get(key).unwrap_or(node);
        self.at_key(key, |cx| cx.reject_as(at, found, allowed, None));
    }

    /// Reports `error` at the current path.
    pub(crate) fn report(&mut self, error: ConfigError) {
        if self.is_lossy {
            return;
        }
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        let path = self.path();
        self.errors.push(ConfigError { path, ..error });
    }

    /// Returns the number of errors so far. Callers compare it to detect new errors.
    pub(crate) fn count(&self) -> usize {
        self.errors.len() + self.omitted
    }

    /// Returns `true` if further errors are only counted, so that computing suggestions has no effect.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    pub(crate) fn finish(self) -> Option<ConfigErrors> {
        ConfigErrors::from_list(self.errors, self.omitted)
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.path {
            match step {
                PathSegment::Index(index) => path.extend(["[", &index.to_string(), "]"]),
                PathSegment::Key(key) => {
                    let simple = !key.is_empty()
                        && key.chars().all(|c| c.is_alphanumeric() || "_-/".contains(c));
                    if !simple {
                        path.extend(["[\"", &shorten(key), "\"]"]);
                        continue;
                    }
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                }
            }
        }
        path
    }
}
