//! Capabilities of a client as bits, in a sealed session id: those that decide what backends send.

use serde_json::{Map, Value, json};
use vmcp_wire::find;

use crate::capabilities::UI;

/// Capabilities by their paths, in the order of their bits. A new one is appended: ids with fewer bits are in use.
const CAPABILITIES: [&[&str]; 9] = [
    &["elicitation"],
    &["elicitation", "form"],
    &["elicitation", "url"],
    &["sampling"],
    &["sampling", "tools"],
    &["sampling", "context"],
    &["roots"],
    &["roots", "listChanged"],
    &["extensions", UI],
];

/// Returns the bits of a client's capabilities, JSON.
pub(super) fn to_bits(capabilities: &[u8]) -> u16 {
    let is_declared = |path: &&[&str]| {
        let value = path.iter().try_fold(capabilities, |value, name| find(value, name));
        value.is_some_and(|value| value != b"false")
    };
    CAPABILITIES
        .iter()
        .enumerate()
        .filter(|(_, path)| is_declared(path))
        .fold(0, |bits, (bit, _)| bits | (1 << bit))
}

/// Returns capabilities with these bits, as JSON.
pub(super) fn from_bits(bits: u16) -> Vec<u8> {
    let mut capabilities = Map::new();
    for (bit, path) in CAPABILITIES.iter().enumerate() {
        if bits & (1 << bit) == 0 {
            continue;
        }
        let value = match **path {
            [_, "listChanged"] => json!(true),
            [_, UI] => json!({"mimeTypes": ["text/html;profile=mcp-app"]}),
            _ => json!({}),
        };
        let parent = capabilities.entry(path[0]).or_insert_with(|| json!({}));
        if let (Value::Object(parent), Some(name)) = (parent, path.get(1)) {
            parent.insert((*name).to_owned(), value);
        }
    }
    Value::Object(capabilities).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restores_each_known_capability() {
        for declared in [
            "{}",
            r#"{"elicitation":{}}"#,
            r#"{"elicitation":{"form":{},"url":{}}}"#,
            r#"{"sampling":{"tools":{}}}"#,
            r#"{"roots":{"listChanged":true}}"#,
            r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#,
        ] {
            let restored = from_bits(to_bits(declared.as_bytes()));
            assert_eq!(String::from_utf8(restored).unwrap(), declared);
        }
    }

    #[test]
    fn omits_unknown_capabilities() {
        let declared = r#"{"roots":{"listChanged":false},"experimental":{"x":{}},"sampling":{}}"#;
        let restored: Value =
            serde_json::from_slice(&from_bits(to_bits(declared.as_bytes()))).unwrap();
        assert_eq!(restored, json!({"roots": {}, "sampling": {}}));
    }

    #[test]
    fn all_bits_round_trip() {
        for bits in 0..1_u16 << CAPABILITIES.len() {
            // A nested capability implies the one that contains it.
            let again = to_bits(&from_bits(bits));
            assert_eq!(again & bits, bits);
            assert_eq!(to_bits(&from_bits(again)), again);
        }
    }
}
