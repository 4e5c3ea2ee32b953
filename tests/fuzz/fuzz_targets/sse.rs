//! Any bytes as an event stream, cut anywhere: the reader sees the same events.
#![no_main]
#![allow(dead_code, reason = "the property tests use more of these modules")]

#[path = "../../../layers/wire/tests/properties/sse.rs"]
mod sse;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sse::check(bytes));
