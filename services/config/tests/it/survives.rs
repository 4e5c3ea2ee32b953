//! Properties of the reader for any text: it does not panic, and accepted documents survive writing and reading
//! unchanged.

use vmcp_config::{File, Format};

/// Panics if it doesn't hold for `text`.
pub(crate) fn check(text: &str) {
    let Ok(file) = File::parse(text, Format::Yaml) else { return };
    let written = file.to_yaml().expect("what was read can be written");
    assert_eq!(File::parse(&written, Format::Yaml).as_ref(), Ok(&file), "{written}");
    let _ = file.warnings();
}
