//! Any edits of any object: all other members stay unchanged byte for byte.
#![no_main]
#![allow(dead_code, reason = "the property tests use more of these modules")]

#[path = "../../../layers/wire/tests/properties/reference.rs"]
mod reference;
#[path = "../../../layers/wire/tests/properties/splice.rs"]
mod splice;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| splice::check(bytes));
