//! Any text as a configuration: nothing panics, and what is accepted survives being written.
#![no_main]

#[path = "../../../services/config/tests/it/survives.rs"]
mod survives;

libfuzzer_sys::fuzz_target!(|text: &str| survives::check(text));
