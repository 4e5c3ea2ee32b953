//! Any bytes as a key set, and any text as a token: parsing never panics, and a token without a valid signature is
//! rejected.
#![no_main]

use std::sync::Arc;

use vmcp_jwt::{KeySet, ValidationOptions, Verifier};

libfuzzer_sys::fuzz_target!(|input: (&[u8], &str)| {
    let (keys, token) = input;
    let Ok(keys) = KeySet::parse(keys) else { return };
    let verifier =
        Verifier::new(Arc::new(keys), ValidationOptions::new("https://issuer.example", "https://mcp.example"));
    assert!(!matches!(verifier.verify_now(token), Some(Ok(_))));
});
