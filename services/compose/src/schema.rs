//! JSON Schemas that are compiled once.

use std::fmt;
use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

use crate::limits::{self, depth};

/// Compiled JSON Schema (2020-12 unless `$schema` names another draft). A clone shares the compiled form.
#[derive(Clone)]
pub struct JsonSchema(Arc<Compiled>);

struct Compiled {
    source: Value,
    validator: Validator,
}

/// Value that does not fit a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// JSON pointer of the value, without the leading slash; empty for the root.
    pub(crate) pointer: String,
    pub(crate) message: String,
}

impl JsonSchema {
    /// Compiles a schema. References to other documents are not resolved.
    ///
    /// # Errors
    /// A message for the operator, if `schema` is not a JSON Schema.
    pub(crate) fn compile(schema: &Map<String, Value>) -> Result<Self, String> {
        let source = Value::Object(schema.clone());
        // A linear-time engine: the values come from clients.
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        match options.build(&source) {
            Ok(validator) => Ok(Self(Arc::new(Compiled { source, validator }))),
            Err(error) => {
                let place = error.instance_path().to_string();
                let place = if place.is_empty() { String::new() } else { format!(" at {place}") };
                Err(limits::shorten(&format!("not a JSON Schema{place}: {}", error.masked())))
            }
        }
    }

    /// Returns the schema.
    #[must_use]
    pub fn as_value(&self) -> &Value {
        &self.0.source
    }

    /// Returns the first few places where `value` does not fit.
    pub(crate) fn violations(&self, value: &Value) -> Vec<Violation> {
        const MAX_VIOLATIONS: usize = 8;
        if self.0.validator.is_valid(value) {
            return Vec::new();
        }
        let errors = self.0.validator.iter_errors(value).take(MAX_VIOLATIONS);
        errors
            .map(|error| Violation {
                pointer: error.instance_path().to_string().trim_start_matches('/').to_owned(),
                message: limits::shorten(&error.masked_with("the value").to_string()),
            })
            .collect()
    }

    /// Returns the subschema of property `name`, if the schema lists it.
    pub(crate) fn property(&self, name: &str) -> Option<&Value> {
        self.0.source.get("properties")?.get(name)
    }
}

/// Returns the size of a schema as JSON, and its depth.
pub(crate) fn measure(schema: &Map<String, Value>) -> (usize, usize) {
    let size = serde_json::to_vec(schema).map_or(usize::MAX, |text| text.len());
    (size, 1 + schema.values().map(depth).max().unwrap_or(0))
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JsonSchema").field(&self.0.source).finish()
    }
}

impl PartialEq for JsonSchema {
    fn eq(&self, other: &Self) -> bool {
        self.0.source == other.0.source
    }
}

/// Returns `true` if a schema contains a reference.
pub(crate) fn has_reference(schema: &Map<String, Value>) -> bool {
    fn is_reference(value: &Value) -> bool {
        match value {
            Value::Object(members) => has_reference(members),
            Value::Array(items) => items.iter().any(is_reference),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    schema.iter().any(|(name, value)| {
        matches!(name.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef") || is_reference(value)
    })
}
