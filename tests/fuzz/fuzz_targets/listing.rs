//! Any bytes as two list responses, separated by a byte 0xFF: the first does not affect the result of the second.
#![no_main]

#[path = "../../../layers/wire/tests/properties/listing.rs"]
mod listing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| listing::check(bytes));
