//! Any text as a template: it is rejected, or renders within its limits.
#![no_main]

#[path = "../../../services/gotemplate/tests/it/arbitrary.rs"]
mod arbitrary;

libfuzzer_sys::fuzz_target!(|source: &str| arbitrary::check(source));
