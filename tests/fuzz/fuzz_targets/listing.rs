//! Any bytes as two answers with lists, apart at a byte 0xFF: what was known before changes nothing.
#![no_main]

#[path = "../../../layers/wire/tests/properties/listing.rs"]
mod listing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| listing::check(bytes));
