//! Files with manifests.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::lines::Lines;
use super::output::Failure;

/// Maximum size of a file, which is that of a request to the API server.
const MAX_FILE: u64 = 3 * 1024 * 1024;

/// Maximum number of files.
const MAX_FILES: usize = 10_000;

/// Maximum size of all files together.
const MAX_TOTAL: usize = 256 * 1024 * 1024;

/// Maximum depth of directories.
const MAX_DEPTH: usize = 32;

/// Ends of the names of files that are read from a directory.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Option with files.
#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// File, directory with files .yaml, .yml and .json, or - for standard input. Repeatable.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Documents of all files.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    list: Vec<Position>,
}

/// Place of a document.
#[derive(Debug)]
struct Position {
    file: Arc<Text>,
    /// Line of the document's root.
    line: u64,
    /// Path of the object within the document, which is not empty for an item of a list.
    prefix: String,
}

#[derive(Debug)]
struct Text {
    name: String,
    lines: Lines,
}

// === impl FileArgs ===

impl FileArgs {
    /// Reads all documents. Lists, as `kubectl get` prints them, count as their items.
    pub(crate) fn read(&self) -> Result<(Documents, Vec<Value>), Failure> {
        let mut texts = Vec::new();
        for path in &self.files {
            collect(path, 0, &mut texts)?;
        }
        let mut documents = Documents::default();
        let mut objects = Vec::new();
        for (name, text) in texts {
            documents.add(&name, &text, &mut objects)?;
        }
        Ok((documents, objects))
    }
}

/// Adds name and text of a file, or of all files of a directory in the order of their names. Links within a directory are not
/// followed to other directories.
fn collect(path: &Path, depth: usize, texts: &mut Vec<(String, String)>) -> Result<(), Failure> {
    let name = path.display().to_string();
    let failed = |error: &dyn std::fmt::Display| Failure::Error(format!("{name}: {error}"));
    if path == Path::new("-") {
        let text = read_text(io::stdin().lock()).map_err(|error| failed(&error))?;
        texts.push(("-".to_owned(), text));
        return Ok(());
    }
    let metadata = fs::metadata(path).map_err(|error| failed(&error))?;
    if !metadata.is_dir() {
        let file = File::open(path).map_err(|error| failed(&error))?;
        let text = read_text(file).map_err(|error| failed(&error))?;
        let size: usize = texts.iter().map(|(_, text)| text.len()).sum();
        if texts.len() >= MAX_FILES || size + text.len() > MAX_TOTAL {
            return Err(failed(&format!(
                "more than {MAX_FILES} files or {MAX_TOTAL} bytes: check fewer at a time"
            )));
        }
        texts.push((name, text));
        return Ok(());
    }
    if depth > MAX_DEPTH {
        return Err(failed(&format!("more than {MAX_DEPTH} directories deep")));
    }
    let entries = fs::read_dir(path).map_err(|error| failed(&error))?;
    let entries: io::Result<Vec<_>> =
        entries.take(MAX_FILES + 1).map(|entry| entry.map(|entry| entry.path())).collect();
    let mut entries = entries.map_err(|error| failed(&error))?;
    if entries.len() > MAX_FILES {
        return Err(failed(&format!("more than {MAX_FILES} entries")));
    }
    entries.sort();
    for entry in entries {
        let is_manifest = entry
            .extension()
            .is_some_and(|end| EXTENSIONS.iter().any(|one| end.eq_ignore_ascii_case(one)));
        let is_linked_directory = entry.is_symlink() && entry.is_dir();
        if is_linked_directory || entry.is_file() && !is_manifest {
            continue;
        }
        if is_manifest || entry.is_dir() {
            collect(&entry, depth + 1, texts)?;
        }
    }
    Ok(())
}

/// Reads a text up to the maximum size.
fn read_text(source: impl Read) -> io::Result<String> {
    let mut text = String::new();
    source.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        let message = format!("more than {MAX_FILE} bytes, the maximum of a manifest");
        return Err(io::Error::other(message));
    }
    Ok(text)
}

// === impl Documents ===

impl Documents {
    /// Returns file and line of a path of a document: `manifests/a.yaml:12`.
    pub(crate) fn place(&self, document: usize, path: &str) -> String {
        match self.list.get(document) {
            Some(position) => format!("{}:{}", position.file.name, position.line(path)),
            None => "-".to_owned(),
        }
    }

    /// Returns file and line of a path of a document, for programs.
    pub(crate) fn file_and_line(&self, document: usize, path: &str) -> Option<(&str, u64)> {
        let position = self.list.get(document)?;
        Some((&position.file.name, position.line(path)))
    }

    fn add(&mut self, name: &str, text: &str, objects: &mut Vec<Value>) -> Result<(), Failure> {
        let options = serde_saphyr::options! { with_snippet: false };
        let documents: Vec<Spanned<Value>> =
            serde_saphyr::from_multiple_with_options(text, options)
                .map_err(|error| Failure::Error(format!("{name}: invalid YAML: {error}")))?;
        let file = Arc::new(Text { name: name.to_owned(), lines: Lines::of(text) });
        for Spanned { value, referenced, defined: _ } in documents {
            let line = referenced.line();
            let mut add = |prefix: String, object: Value| {
                self.list.push(Position { file: Arc::clone(&file), line, prefix });
                objects.push(object);
            };
            match value {
                Value::Object(mut fields) if is_list(&fields) => {
                    let Some(Value::Array(items)) = fields.remove("items") else { continue };
                    for (index, item) in items.into_iter().enumerate() {
                        add(format!("items[{index}]"), item);
                    }
                }
                object => add(String::new(), object),
            }
        }
        Ok(())
    }
}

/// Returns whether a document is a list of objects: `List`, or `MCPGroupList` with items.
fn is_list(fields: &serde_json::Map<String, Value>) -> bool {
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind.ends_with("List") && fields.get("items").is_some_and(Value::is_array)
}

// === impl Position ===

impl Position {
    fn line(&self, path: &str) -> u64 {
        let separator = if self.prefix.is_empty() || path.is_empty() { "" } else { "." };
        let path = format!("{}{separator}{path}", self.prefix);
        self.file.lines.line(self.line, &path)
    }
}
