#![doc = include_str!("../README.md")]

mod algorithm;
mod claims;
mod error;
mod jwk;
mod jwks;
mod key;
mod key_set;
mod key_source;
mod validation;
mod verifier;

#[cfg(test)]
mod testing;

pub use vmcp_core::MAX_CLAIMS;

pub use self::{
    algorithm::Algorithm,
    claims::parse_claims,
    error::{TokenError, VerifyError},
    jwk::Jwk,
    jwks::{JwksSource, SourceError},
    key::{Key, KeyError},
    key_set::{KeySet, KeySetError, MAX_KEY_SET_SIZE, MAX_KEYS},
    key_source::{KeySource, KeySourceError, KeysFuture},
    validation::{LEEWAY, ValidationOptions},
    verifier::{MAX_TOKEN_SIZE, VerifiedToken, Verifier, is_jwt},
};
