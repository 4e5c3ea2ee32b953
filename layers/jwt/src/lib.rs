#![doc = include_str!("../README.md")]

mod algorithm;
mod discovery;
mod fault;
mod fetch;
mod jwk;
mod jwks;
mod key;
mod lifetime;
mod rules;
mod set;
mod source;
mod strict;
mod verifier;

#[cfg(test)]
mod testing;

pub use self::{
    algorithm::Algorithm,
    discovery::SourceError,
    fault::{TokenFault, VerifyError},
    jwk::Jwk,
    jwks::JwksSource,
    key::{Key, KeyFault},
    rules::{LEEWAY, Rules},
    set::{KeySet, KeySetError, MAX_KEYS, MAX_SET},
    source::{KeySource, KeysError, KeysFuture},
    strict::{MAX_CLAIMS, parse_claims},
    verifier::{MAX_TOKEN, Verified, Verifier, is_jwt},
};
