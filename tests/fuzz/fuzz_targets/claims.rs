//! Any text as a claims set: what is read bit by bit says what the tree says.
#![no_main]

use vmcp_core::{Claim, Claims, ClaimsFault, MAX_CLAIMS};

#[path = "../../../layers/core/src/claims/tests/tree.rs"]
mod tree;

libfuzzer_sys::fuzz_target!(|text: &str| tree::check(text));
