//! Test support: keys, tokens and clock.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use vmcp_core::Clock;
use vmcp_jwt::{KeySet, ValidationOptions, Verifier};

use crate::JwtVerifier;

pub(crate) const ISSUER: &str = "https://id.example";
pub(crate) const AUDIENCE: &str = "https://mcp.example/mcp";
pub(crate) const NOW: u64 = 1_785_240_000;

static PAIR: LazyLock<Ed25519KeyPair> = LazyLock::new(|| Ed25519KeyPair::generate().unwrap());

pub(crate) fn clock() -> Clock {
    Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW))
}

/// Returns the key set with the signing key under the id `kid`.
pub(crate) fn keys(kid: &str) -> Arc<KeySet> {
    let x = URL_SAFE_NO_PAD.encode(PAIR.public_key());
    let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x}]});
    Arc::new(KeySet::parse(set.to_string().as_bytes()).unwrap())
}

pub(crate) fn rules() -> ValidationOptions {
    ValidationOptions::new(ISSUER, AUDIENCE)
}

/// Returns a verifier for tokens of the key `1`.
pub(crate) fn jwt(clock: &Clock) -> JwtVerifier<Arc<KeySet>> {
    JwtVerifier::new(Verifier::new(keys("1"), rules()).clock(clock.clone()))
}

/// Returns claims of alice that are valid for an hour, extended by `more`.
pub(crate) fn claims(more: &Value) -> Value {
    let mut claims = json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 3600});
    let object = claims.as_object_mut().unwrap();
    object.extend(more.as_object().unwrap().clone());
    claims
}

/// Returns a token with these claims, signed with the key `1`.
pub(crate) fn token(claims: &Value) -> String {
    let header = json!({"alg": "EdDSA", "kid": "1"}).to_string();
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let signed = format!("{}.{}", encode(header.as_bytes()), encode(claims.to_string().as_bytes()));
    format!("{signed}.{}", encode(PAIR.sign(signed.as_bytes()).as_ref()))
}
