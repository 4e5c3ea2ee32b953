//! Hash of an object.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 digest of a value in hexadecimal, whatever the order of its members.
pub(crate) fn hash(value: &Value) -> String {
    let mut hasher = Sha256::new();
    feed(&mut hasher, value);
    hexadecimal(&hasher.finalize())
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Feeds a value as JSON with sorted members.
fn feed(hasher: &mut Sha256, value: &Value) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            hasher.update(b"{");
            for (name, value) in members {
                hasher.update(Value::from(name.as_str()).to_string());
                hasher.update(b":");
                feed(hasher, value);
                hasher.update(b",");
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            for item in items {
                feed(hasher, item);
                hasher.update(b",");
            }
            hasher.update(b"]");
        }
        scalar => hasher.update(scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn different_objects_have_different_hashes() {
        let objects =
            [json!({"a": ["b"]}), json!({"a": "b"}), json!({"a": ["b", ""]}), json!(["a", "b"])];
        let hashes: std::collections::BTreeSet<_> = objects.iter().map(hash).collect();
        assert_eq!(hashes.len(), objects.len());
        assert_eq!(hash(&json!({})).len(), 64);
    }
}
