//! Words that tools use for what a request only implies.
//!
//! People name a file, a day or a wish; tools name a format, a kind of data or an operation. Each row is a convention of
//! tools in general, not of one server.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::terms::Analyzer;

/// Implied by a path: tools that read or write files rarely call it a path.
pub(super) const PATH: &str = "file";

/// Words, and what each of them implies.
const HINTS: &[(&str, &str)] = &[
    // The extension of a file names its format.
    ("doc docx", "word document"),
    ("ppt pptx", "powerpoint presentation"),
    ("xls xlsx", "excel spreadsheet"),
    ("md", "markdown"),
    ("txt", "text"),
    // Only a tool knows what day it is.
    (
        "today tonight tomorrow yesterday monday tuesday wednesday thursday friday saturday sunday",
        "current date time",
    ),
    // Tools "write" or "store" what people "save".
    ("save saved saving", "write store"),
];

/// Returns the words that `term` implies.
pub(super) fn implied_by(term: &str) -> Option<&'static str> {
    static BY_TERM: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
        let analyzer = Analyzer::new();
        let rows = HINTS.iter();
        rows.flat_map(|(words, implied)| {
            analyzer.terms(words).into_iter().map(|term| (term, *implied))
        })
        .collect()
    });
    BY_TERM.get(term).copied()
}

/// Returns `true` if `text` contains the absolute path of a file or folder, in the form of Unix or of Windows.
pub(super) fn has_path(text: &str) -> bool {
    text.split(|char: char| char.is_whitespace() || "\"'`()[]{}<>,;".contains(char)).any(is_path)
}

fn is_path(word: &str) -> bool {
    let word = word.trim_start_matches('~');
    let is_drive =
        matches!(word.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
    let is_unix = word.starts_with('/') && !word.starts_with("//");
    let parts = word.split(['/', '\\']).filter(|part| !part.is_empty()).count();
    (is_drive || is_unix) && parts >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_paths() {
        for path in ["to /home/user/x.md.", "(C:\\data\\x.csv)", "~/notes/today"] {
            assert!(has_path(path), "{path}");
        }
        for other in ["https://example.com/a/b", "and/or", "//cdn.example/x", "/", "7/8", "a:b"] {
            assert!(!has_path(other), "{other}");
        }
    }

    #[test]
    fn words_imply_others_by_stem() {
        assert_eq!(implied_by("pptx"), Some("powerpoint presentation"));
        assert_eq!(implied_by("save"), Some("write store"));
        assert_eq!(implied_by("issue"), None);
    }
}
