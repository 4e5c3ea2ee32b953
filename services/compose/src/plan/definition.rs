//! Hash of a definition.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use vmcp_config::CompositeTool;

use crate::DefinitionHash;

/// Version of the engine's rules. A run of another version does not continue.
const VERSION: &[u8] = b"vmcp-compose 1\n";

/// Returns the hash of a definition: the same for each spelling and order of members.
pub(super) fn hash(tool: &CompositeTool) -> DefinitionHash {
    let mut text = VERSION.to_vec();
    let value = serde_json::to_value(tool).expect("a definition has text keys and finite numbers");
    write_canonical(&value, &mut text);
    DefinitionHash::new(Sha256::digest(&text).into())
}

/// Returns the digest of any value: the same for each order of members.
pub(crate) fn digest(value: &Value) -> [u8; 32] {
    let mut text = Vec::new();
    write_canonical(value, &mut text);
    Sha256::digest(&text).into()
}

fn write_canonical(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            text.push(b'{');
            for (name, value) in sorted {
                text.extend_from_slice(Value::from(name.as_str()).to_string().as_bytes());
                text.push(b':');
                write_canonical(value, text);
                text.push(b',');
            }
            text.push(b'}');
        }
        Value::Array(items) => {
            text.push(b'[');
            for item in items {
                write_canonical(item, text);
                text.push(b',');
            }
            text.push(b']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.extend_from_slice(value.to_string().as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn digest_ignores_order_of_members() {
        let text = |text: &str| digest(&serde_json::from_str(text).unwrap());
        assert_eq!(text(r#"{"a": 1, "b": [{}]}"#), text(r#"{"b": [{}], "a": 1}"#));
        assert_ne!(digest(&json!([1, 2])), digest(&json!([2, 1])));
        assert_ne!(digest(&json!({"a": "1"})), digest(&json!({"a": 1})));
    }
}
