//! Files and layers stay short.

use std::collections::BTreeMap;

use super::*;

/// Maximum lines of a file without tests.
const LINES: usize = 400;

/// Maximum lines of a crate in `layers/` without tests.
const LAYER: usize = 3_000;

/// Exceptions for crates in `layers/`, each with its reason.
const LONGER: &[(&str, &str)] = &[
    ("core", "the ground: the words that all layers share"),
    ("wire", "the ground: one reader of messages, in whose parts nobody is interested alone"),
];

#[test]
fn files_stay_below_maximum_length() {
    let broken: Vec<_> = rust_files()
        .filter(|(path, _)| !is_test(path))
        .map(|(path, text)| (path, without_tests(&text).len()))
        .filter(|(_, lines)| *lines > LINES)
        .map(|(path, lines)| format!("{}: {lines}", path.display()))
        .collect();
    assert_none(&broken, &format!("at most {LINES} lines without tests"));
}

#[test]
fn layers_stay_below_maximum_length() {
    let layer = |path: &Path| {
        let mut parts = path.components().filter_map(|part| part.as_os_str().to_str());
        match (parts.next(), parts.next(), parts.next()) {
            (Some("layers"), Some(layer), Some("src")) => Some(layer.to_owned()),
            _ => None,
        }
    };
    let mut lengths = BTreeMap::<_, usize>::new();
    for (path, text) in rust_files().filter(|(path, _)| !is_test(path)) {
        if let Some(layer) = layer(&path) {
            *lengths.entry(layer).or_default() += without_tests(&text).len();
        }
    }
    let excused = |layer: &str| LONGER.iter().any(|(longer, _)| *longer == layer);
    let broken: Vec<_> = lengths
        .iter()
        .filter(|(layer, lines)| **lines >= LAYER && !excused(layer))
        .map(|(layer, lines)| format!("layers/{layer}: {lines}"))
        .collect();
    assert_none(&broken, &format!("fewer than {LAYER} lines without tests"));
}
