//! Any text as a claims set: the streaming parser and the tree parser agree.
#![no_main]

use vmcp_core::{Claim, Claims, ClaimsError, MAX_CLAIMS};

#[path = "../../../layers/core/src/claims/tests/tree.rs"]
mod tree;

libfuzzer_sys::fuzz_target!(|text: &str| tree::check(text));
