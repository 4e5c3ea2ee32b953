//! Test support: keys and tokens.

use std::time::{Duration, SystemTime};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

pub(crate) const ISSUER: &str = "https://id.example/t1";
pub(crate) const AUDIENCE: &str = "https://mcp.example/mcp";
/// 2026-07-28, shortly after noon.
pub(crate) const NOW: u64 = 1_785_240_000;

pub(crate) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)
}

/// Signing key pair.
pub(crate) struct Pair(Ed25519KeyPair);

impl Pair {
    pub(crate) fn ed() -> Self {
        Self(Ed25519KeyPair::generate().unwrap())
    }

    /// Returns the public key as a JWK.
    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.0.public_key().as_ref());
        json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x})
    }

    /// Returns a token signed with the key `kid`.
    pub(crate) fn sign(&self, kid: &str, claims: &Value) -> String {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let header = json!({"alg": "EdDSA", "kid": kid}).to_string();
        let signed = [header, claims.to_string()].map(|part| encode(part.as_bytes())).join(".");
        format!("{signed}.{}", encode(self.0.sign(signed.as_bytes()).as_ref()))
    }
}

/// Returns a key set.
pub(crate) fn set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

/// Returns valid claims.
pub(crate) fn claims() -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 3600, "iat": NOW})
}
