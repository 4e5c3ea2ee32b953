//! Lines of the fields of YAML documents.

use std::collections::BTreeMap;

use serde_saphyr::granit_parser::{Event, Options, Parser, options};

/// Maximum nesting, which is that of the reader of the documents.
const MAX_DEPTH: usize = 64;

/// Lines of the fields of each document of a text.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// By the line of the document's root.
    documents: BTreeMap<u64, BTreeMap<String, u64>>,
}

/// Container of which the end was not read yet.
enum Open {
    Map { path: String, key: Option<String> },
    List { path: String, index: usize },
}

// === impl Lines ===

impl Lines {
    /// Reads the lines of a text. Fields after a mistake of its YAML have none.
    pub(crate) fn of(text: &str) -> Self {
        let mut lines = Self::default();
        let mut root = 0;
        let mut open: Vec<Open> = Vec::new();
        for event in Parser::new_from_str_with_options(text, limits()) {
            let Ok((event, span)) = event else { break };
            let line = span.start.line() as u64;
            match event {
                Event::Scalar(text, ..) => {
                    if let Some(Open::Map { path, key: key @ None }) = open.last_mut() {
                        let path = child(path, &text);
                        lines.set(root, path, line);
                        *key = Some(text.into_owned());
                        continue;
                    }
                    if open.is_empty() {
                        root = line;
                    }
                    lines.begin(root, &open, line);
                    end(&mut open);
                }
                Event::Alias(..) => {
                    lines.begin(root, &open, line);
                    end(&mut open);
                }
                Event::SequenceStart(..) | Event::MappingStart(..) => {
                    if open.is_empty() {
                        root = line;
                    }
                    let path = lines.begin(root, &open, line);
                    open.push(match event {
                        Event::SequenceStart(..) => Open::List { path, index: 0 },
                        _ => Open::Map { path, key: None },
                    });
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    open.pop();
                    end(&mut open);
                }
                _ => {}
            }
        }
        lines
    }

    /// Returns the line of a path in the document with this root, or of the innermost field around it.
    pub(crate) fn line(&self, root: u64, path: &str) -> u64 {
        let Some(fields) = self.documents.get(&root) else { return root };
        let mut path = path;
        loop {
            if let Some(line) = fields.get(path) {
                return *line;
            }
            match path.rfind(['.', '[']) {
                Some(at) => path = &path[..at],
                None => return root,
            }
        }
    }

    /// Notes the line at which the next value begins, unless its key was noted, and returns its path.
    fn begin(&mut self, root: u64, open: &[Open], line: u64) -> String {
        match open.last() {
            None => String::new(),
            Some(Open::Map { path, key }) => child(path, key.as_deref().unwrap_or_default()),
            Some(Open::List { path, index }) => {
                let path = format!("{path}[{index}]");
                self.set(root, path.clone(), line);
                path
            }
        }
    }

    fn set(&mut self, root: u64, path: String, line: u64) {
        self.documents.entry(root).or_default().entry(path).or_insert(line);
    }
}

/// Counts a value whose end was read.
fn end(open: &mut [Open]) {
    match open.last_mut() {
        Some(Open::Map { key, .. }) => *key = None,
        Some(Open::List { index, .. }) => *index += 1,
        None => {}
    }
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn limits() -> Options {
    options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH + 1,
        block_nesting_limit: MAX_DEPTH + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_lines_of_their_document() {
        let text = "# comment\na: &anchor 1\nb:\n  - c: [x, {d: 1}]\n  - *anchor\n---\na:\n  b: |\n    text\n  c: 1\n";
        let lines = Lines::of(text);
        let first = [("a", 2), ("b", 3), ("b[0].c", 4), ("b[0].c[1].d", 4), ("b[1]", 5)];
        for (path, line) in first {
            assert_eq!(lines.line(2, path), line, "{path}");
        }
        assert_eq!(lines.line(7, "a.c"), 10);
        // A field that is missing has the line of the object around it.
        assert_eq!(lines.line(7, "a.missing.field"), 7);
        assert_eq!(lines.line(7, "missing"), 7);
    }
}
