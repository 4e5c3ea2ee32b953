//! Any bytes as a message: the scanner, the head reader and serde_json agree.
#![no_main]
#![allow(dead_code, reason = "the property tests use more of these modules")]

#[path = "../../../layers/wire/tests/properties/envelope.rs"]
mod envelope;
#[path = "../../../layers/wire/tests/properties/reference.rs"]
mod reference;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| envelope::check(bytes));
