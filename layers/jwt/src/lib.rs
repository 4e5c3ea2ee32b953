#![doc = include_str!("../README.md")]

mod algorithm;
mod fault;
mod jwk;
mod key;
mod rules;
mod set;
mod source;
mod strict;
mod verifier;

#[cfg(test)]
mod testing;

pub use vmcp_core::MAX_CLAIMS;

pub use self::{
    algorithm::Algorithm,
    fault::{TokenFault, VerifyError},
    jwk::Jwk,
    key::{Key, KeyFault},
    rules::{LEEWAY, Rules},
    set::{KeySet, KeySetError, MAX_KEYS, MAX_SET},
    source::{KeySource, KeysError, KeysFuture},
    strict::parse_claims,
    verifier::{MAX_TOKEN, Verified, Verifier, is_jwt},
};
