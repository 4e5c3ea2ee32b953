//! Conversion of a JSON Schema (2020-12) into a structural schema.
//!
//! A structural schema has no references, states the type of each value once, and excludes `const`, `if` and `not` beside
//! types. The rules of objects come as CEL instead (`x-kubernetes-validations`). Empty text, which documents may write for an
//! absent value, is admitted where no format excludes it.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const DEFINITIONS: &str = "#/$defs/";

/// Keywords that a structural schema takes over as they are.
const KEPT: [&str; 12] = [
    "description",
    "enum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "pattern",
    "required",
];

/// Formats that the API server checks.
const FORMATS: [&str; 4] = ["date-time", "int32", "int64", "double"];

/// Returns the structural schema of a type.
pub(crate) fn schema<T: JsonSchema>() -> Value {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    let Value::Object(mut root) = schema.to_value() else { return json!({}) };
    let definitions = match root.remove("$defs") {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    let mut converter = Converter { definitions: &definitions, open: Vec::new() };
    Value::Object(converter.convert(&Value::Object(root)))
}

struct Converter<'a> {
    definitions: &'a Map<String, Value>,
    /// References that are being resolved, to find those that lead back to themselves.
    open: Vec<String>,
}

// === impl Converter ===

impl Converter<'_> {
    fn convert(&mut self, schema: &Value) -> Map<String, Value> {
        let Value::Object(schema) = schema else { return any() };
        let mut converted = self.convert_base(schema);
        self.convert_children(schema, &mut converted);
        for keyword in KEPT {
            if let Some(value) = schema.get(keyword) {
                converted.insert(keyword.to_owned(), value.clone());
            }
        }
        for (keyword, value) in schema.iter().filter(|(key, _)| key.starts_with("x-kubernetes-")) {
            converted.insert(keyword.clone(), value.clone());
        }
        if let Some(default) = schema.get("default").filter(|default| has_effect(default)) {
            converted.insert("default".to_owned(), default.clone());
        }
        set_format(schema, &mut converted);
        if is_open(&converted) {
            converted.insert(PRESERVE.to_owned(), json!(true));
        }
        converted
    }

    /// Converts what the schema refers to or chooses from.
    fn convert_base(&mut self, schema: &Map<String, Value>) -> Map<String, Value> {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            return self.resolve(name.strip_prefix(DEFINITIONS).unwrap_or(name));
        }
        if let Some(Value::Array(choices)) = schema.get("anyOf") {
            return self.convert_choices(choices);
        }
        let mut converted = Map::new();
        if let Some(Value::Array(choices)) = schema.get("oneOf") {
            let words: Vec<_> = choices.iter().filter_map(|choice| choice.get("const")).collect();
            converted.insert("type".to_owned(), json!("string"));
            converted.insert("enum".to_owned(), json!(words));
        }
        match schema.get("type") {
            Some(Value::Array(types)) => {
                let named = types.iter().find(|name| **name != json!("null"));
                converted.extend(named.map(|name| ("type".to_owned(), name.clone())));
            }
            Some(name) => _ = converted.insert("type".to_owned(), name.clone()),
            None => {}
        }
        converted
    }

    fn resolve(&mut self, name: &str) -> Map<String, Value> {
        if self.open.iter().any(|open| open == name) {
            let mut object = any();
            object.insert("type".to_owned(), json!("object"));
            return object;
        }
        let Some(target) = self.definitions.get(name) else { return any() };
        self.open.push(name.to_owned());
        let converted = self.convert(target);
        self.open.pop();
        converted
    }

    /// Converts a value that may be absent: `null`, or `""` as text.
    fn convert_choices(&mut self, choices: &[Value]) -> Map<String, Value> {
        let is_empty = |choice: &Value| choice.get("const") == Some(&json!(""));
        let is_null = |choice: &Value| choice.get("type") == Some(&json!("null"));
        let Some(value) = choices.iter().find(|choice| !is_empty(choice) && !is_null(choice))
        else {
            return any();
        };
        let mut converted = self.convert(value);
        if choices.iter().any(is_empty) && !converted.contains_key("pattern") {
            converted.remove("minLength");
        }
        converted
    }

    fn convert_children(
        &mut self,
        schema: &Map<String, Value>,
        converted: &mut Map<String, Value>,
    ) {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            let properties: Map<_, _> = properties
                .iter()
                .map(|(name, schema)| (name.clone(), Value::Object(self.convert(schema))))
                .collect();
            converted.insert("properties".to_owned(), Value::Object(properties));
        }
        if let Some(items) = schema.get("items") {
            converted.insert("items".to_owned(), Value::Object(self.convert(items)));
        }
        if let Some(values @ Value::Object(_)) = schema.get("additionalProperties") {
            converted
                .insert("additionalProperties".to_owned(), Value::Object(self.convert(values)));
        }
    }
}

/// Returns the schema of any value.
fn any() -> Map<String, Value> {
    Map::from_iter([(PRESERVE.to_owned(), json!(true))])
}

/// Returns `true` for a default that the API server has to write into the object.
fn has_effect(default: &Value) -> bool {
    match default {
        Value::Null | Value::Object(_) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Returns `true` if the schema says nothing about the value, or nothing about its fields.
fn is_open(schema: &Map<String, Value>) -> bool {
    match schema.get("type").and_then(Value::as_str) {
        None => !schema.contains_key("x-kubernetes-int-or-string"),
        Some("object") => {
            !schema.contains_key("properties") && !schema.contains_key("additionalProperties")
        }
        Some(_) => false,
    }
}

/// Sets the width of integers, and other formats that the API server checks.
fn set_format(schema: &Map<String, Value>, converted: &mut Map<String, Value>) {
    let format = schema.get("format").and_then(Value::as_str);
    if let Some(format) = format.filter(|format| FORMATS.contains(format)) {
        converted.insert("format".to_owned(), json!(format));
    } else if converted.get("type") == Some(&json!("integer")) && !converted.contains_key("format")
    {
        let maximum = converted.get("maximum").and_then(Value::as_i64);
        let is_small = maximum.is_some_and(|maximum| maximum <= i64::from(i32::MAX));
        converted.insert("format".to_owned(), json!(if is_small { "int32" } else { "int64" }));
    }
}
