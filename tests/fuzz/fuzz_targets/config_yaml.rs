//! The YAML entry: no document panics, and what is accepted can be written and read again as the same.

#![cfg_attr(fuzzing, no_main)]

use vmcp_config::{File, Format};

/// One round. Also driven by a property test on stable Rust.
pub(crate) fn run(text: &str) {
    let Ok(file) = File::parse(text, Format::Yaml) else { return };
    let written = file.to_yaml().expect("what was read can be written");
    let again = File::parse(&written, Format::Yaml);
    assert_eq!(again.as_ref(), Ok(&file), "{written}");
    let _ = file.warnings();
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|text: &str| run(text));
