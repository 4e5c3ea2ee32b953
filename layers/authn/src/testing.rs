//! Test support: keys, tokens and clock.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use vmcp_core::Clock;
use vmcp_jwt::{KeySet, ValidationOptions, Verifier};
use vmcp_test_support::SigningKey;

use crate::JwtVerifier;

pub(crate) const ISSUER: &str = "https://id.example";
pub(crate) const AUDIENCE: &str = "https://mcp.example/mcp";
pub(crate) const NOW: u64 = 1_785_240_000;

static KEY: LazyLock<SigningKey> = LazyLock::new(SigningKey::ed25519);

pub(crate) fn clock() -> Clock {
    Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW))
}

/// Returns the key set with the signing key under the id `kid`.
pub(crate) fn keys(kid: &str) -> Arc<KeySet> {
    let set = json!({"keys": [KEY.jwk(kid)]});
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
    KEY.sign("1", claims)
}
