//! Restrictions of MCP on the schema of a question (elicitation, `requestedSchema`).

use serde_json::{Map, Value};

use super::errors::{Errors, member};

const ALLOWED: &str =
    "a flat object of texts, numbers, booleans and choices, as clients show no other";

/// Rejects what a client cannot show as a form: anything but an object whose properties are of one primitive type, or lists of
/// choices.
pub(super) fn check(schema: &Map<String, Value>, path: &str, errors: &mut Errors) {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        let found = schema.get("type").map_or("no value".to_owned(), Value::to_string);
        return errors.reject(format!("{path}.type"), found, "object");
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if let Some(found) = find_unsupported(property) {
            let path = member(&format!("{path}.properties"), name);
            errors.reject(path, found, ALLOWED);
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    for name in names.filter(|name| properties.is_none_or(|all| !all.contains_key(*name))) {
        // Clients show declared properties only, so no answer would be valid.
        let allowed = "names of the schema's own properties";
        errors.reject(format!("{path}.required"), format!("\"{name}\""), allowed);
    }
}

fn find_unsupported(property: &Value) -> Option<&'static str> {
    let is_choice = |items: &Value| items.get("enum").or_else(|| items.get("anyOf")).is_some();
    match property.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "number" | "boolean") => None,
        Some("array") if property.get("items").is_some_and(is_choice) => None,
        Some("array") => Some("an array without choices"),
        Some("object") => Some("an object"),
        _ => Some("a property without a single type"),
    }
}
