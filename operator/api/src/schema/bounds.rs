//! Upper bounds of texts, lists and maps that the types leave open.
//!
//! The API server estimates the cost of CEL rules from these bounds and refuses a definition whose rules may cost too much. The
//! bounds are far above what a gateway needs; the request limit of the API server (3 MiB) would apply otherwise.

use serde_json::{Map, Value, json};

/// Characters of a text without a bound of its own.
const MAX_LENGTH: u64 = 4096;
/// Characters of a duration.
const MAX_DURATION_LENGTH: u64 = 64;
/// Characters of a decimal number.
const MAX_DECIMAL_LENGTH: u64 = 32;
/// Entries of a list or a map without a bound of its own.
const MAX_ENTRIES: u64 = 256;

/// Bounds by the name of the field.
const FIELDS: [(&str, u64); 14] = [
    ("backends", 256),
    ("collection", 65_536),
    ("compositeTools", 64),
    ("condition", 65_536),
    ("description", 65_536),
    ("entitiesJson", 1_048_576),
    ("message", 65_536),
    ("overrides", 128),
    ("policies", 1024),
    ("roleMappings", 64),
    ("tools", 256),
    ("toolsFilter", 1024),
    ("toolsOverride", 1024),
    ("value", 65_536),
];

/// Characters of one Cedar policy.
const MAX_POLICY_LENGTH: u64 = 65_536;

/// Adds the missing bounds.
pub(crate) fn apply(schema: &mut Value) {
    visit(schema, "");
}

fn visit(schema: &mut Value, name: &str) {
    let Value::Object(schema) = schema else { return };
    let named = FIELDS.iter().find(|(field, _)| *field == name).map(|(_, bound)| *bound);
    match schema.get("type").and_then(Value::as_str) {
        Some("string") if !schema.contains_key("enum") && !schema.contains_key("format") => {
            let bound = named.unwrap_or_else(|| text_bound(schema, name));
            bind(schema, "maxLength", bound);
        }
        Some("array") => bind(schema, "maxItems", named.unwrap_or(MAX_ENTRIES)),
        Some("object") if schema.contains_key("additionalProperties") => {
            bind(schema, "maxProperties", named.unwrap_or(MAX_ENTRIES));
        }
        _ => {}
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, schema) in properties {
            visit(schema, name);
        }
    }
    let item = format!("{name}[]");
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(keyword) {
            visit(inner, &item);
        }
    }
}

fn text_bound(schema: &Map<String, Value>, name: &str) -> u64 {
    match schema.get("pattern").and_then(Value::as_str) {
        Some(pattern) if pattern.contains("(ns|us|") => MAX_DURATION_LENGTH,
        Some(pattern) if pattern.starts_with("^([0-9]*[.])") || pattern.starts_with("^(0(") => {
            MAX_DECIMAL_LENGTH
        }
        _ if name == "policies[]" => MAX_POLICY_LENGTH,
        _ => MAX_LENGTH,
    }
}

fn bind(schema: &mut Map<String, Value>, keyword: &str, bound: u64) {
    schema.entry(keyword).or_insert_with(|| json!(bound));
}
