//! Shared test helpers.

use vmcp_config::{Config, File, Format};

/// Document with every key of a file.
pub(crate) const FULL: &str = include_str!("full.yaml");

/// Smallest valid file.
pub(crate) const MINIMAL: &str = "name: x\nincomingAuth: {type: anonymous}\n";

/// Parses `MINIMAL` and `more`.
pub(crate) fn file(more: &str) -> File {
    let text = format!("{MINIMAL}{more}");
    File::parse(&text, Format::Yaml).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// Returns the errors in `MINIMAL` and `more`, one line each.
pub(crate) fn errors(more: &str) -> Vec<String> {
    document_errors(&format!("{MINIMAL}{more}"))
}

/// Returns the errors in `text`, one line each.
pub(crate) fn document_errors(text: &str) -> Vec<String> {
    match File::parse(text, Format::Yaml) {
        Ok(file) => panic!("accepted: {file:?}"),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// Asserts that `MINIMAL` and `more` have one error, at `path`, whose text contains `expected`.
pub(crate) fn assert_error(more: &str, path: &str, expected: &str) {
    let list = errors(more);
    assert_eq!(list.len(), 1, "{list:#?}");
    let text = list[0].split_once(": ").map_or("", |(_, rest)| rest);
    assert!(text.starts_with(&format!("{path}: ")), "{list:#?}");
    assert!(text.contains(expected), "{list:#?}");
}

/// Parses the inline configuration of a resource.
pub(crate) fn config(text: &str) -> Config {
    Config::parse(text, Format::Yaml).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}
