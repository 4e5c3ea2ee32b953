//! Any text as a configuration: parsing never panics, and accepted configurations survive a round trip.
#![no_main]

#[path = "../../../services/config/tests/it/survives.rs"]
mod survives;

libfuzzer_sys::fuzz_target!(|text: &str| survives::check(text));
