//! Shared test helpers.

use vmcp_config::{Config, File, Format};

/// A document with every key that a file may have.
pub(crate) const FULL: &str = include_str!("full.yaml");

/// The least that a file has to say.
pub(crate) const LEAST: &str = "name: x\nincomingAuth: {type: anonymous}\n";

/// `LEAST` and `more`.
pub(crate) fn file(more: &str) -> File {
    let text = format!("{LEAST}{more}");
    File::parse(&text, Format::Yaml).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// The errors in `LEAST` and `more`, one line each.
pub(crate) fn errors(more: &str) -> Vec<String> {
    whole(&format!("{LEAST}{more}"))
}

/// The errors in `text`, one line each.
pub(crate) fn whole(text: &str) -> Vec<String> {
    match File::parse(text, Format::Yaml) {
        Ok(file) => panic!("accepted: {file:?}"),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// The one error in `LEAST` and `more`; it has to begin with the line and the path, and to contain `words`.
pub(crate) fn one(more: &str, path: &str, words: &str) {
    let list = errors(more);
    assert_eq!(list.len(), 1, "{list:#?}");
    let text = list[0].split_once(": ").map_or("", |(_, rest)| rest);
    assert!(text.starts_with(&format!("{path}: ")), "{list:#?}");
    assert!(text.contains(words), "{list:#?}");
}

/// A resource's inline configuration.
pub(crate) fn config(text: &str) -> Config {
    Config::parse(text, Format::Yaml).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}
