//! Test support: keys and tokens.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

pub(crate) const ISSUER: &str = "https://id.example/t1";
pub(crate) const AUDIENCE: &str = "https://mcp.example/mcp";
/// 2026-07-28, shortly after noon.
pub(crate) const NOW: u64 = 1_785_240_000;

pub(crate) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)
}

/// Returns a key set.
pub(crate) fn set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

/// Returns valid claims.
pub(crate) fn claims() -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 3600, "iat": NOW})
}

/// Returns valid claims with one member changed, or removed by `null`.
pub(crate) fn claims_with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    let object = claims.as_object_mut().unwrap();
    if value.is_null() {
        object.remove(name);
    } else {
        object.insert(name.into(), value);
    }
    claims
}
