//! The tool's `outputSchema`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use vmcp_config::composite::{Output, Property};

/// Returns the JSON Schema of an output.
pub(crate) fn output_schema(output: &Output) -> Value {
    let Output { properties, required } = output;
    let mut schema = object_schema(properties);
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.iter().map(String::as_str).collect());
    }
    Value::Object(schema)
}

fn object_schema(properties: &BTreeMap<String, Property>) -> Map<String, Value> {
    let properties = properties
        .iter()
        .map(|(name, property)| (name.clone(), Value::Object(property_schema(property))));
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), Value::Object(properties.collect()));
    schema
}

fn property_schema(property: &Property) -> Map<String, Value> {
    let Property { r#type: kind, description, value: _, properties, default: _ } = property;
    let mut schema = match properties {
        Some(properties) => object_schema(properties),
        None => Map::new(),
    };
    schema.insert("type".to_owned(), kind.to_string().into());
    if let Some(description) = description {
        schema.insert("description".to_owned(), description.as_str().into());
    }
    schema
}
