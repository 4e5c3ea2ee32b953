//! Schemas of all kinds, as the API server reads them.

use serde_json::Value;
use vmcp_structural_schema::Schema;

/// Returns kind and schema of each definition, as JSON.
pub(crate) fn schemas() -> Vec<(String, Value)> {
    vmcp_api::definitions()
        .into_iter()
        .map(|definition| {
            let schema = definition.spec.versions[0].schema.clone().unwrap().open_api_v3_schema;
            (definition.spec.names.kind, serde_json::to_value(schema).unwrap())
        })
        .collect()
}

/// Returns the schema of one kind, as JSON.
pub(crate) fn schema(kind: &str) -> Value {
    schemas().into_iter().find(|(name, _)| name == kind).expect(kind).1
}

/// Returns the schema of one kind, compiled.
pub(crate) fn compiled(kind: &str) -> Schema {
    Schema::from_value(&schema(kind)).unwrap()
}

/// Visits a schema and all below it. Items of lists and values of maps have the path `[]`.
pub(crate) fn visit(schema: &Value, path: &str, visitor: &mut dyn FnMut(&str, &Value)) {
    visitor(path, schema);
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for (name, schema) in properties {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            visit(schema, &path, visitor);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get(keyword).filter(|schema| schema.is_object()) {
            visit(schema, &format!("{path}[]"), visitor);
        }
    }
}
