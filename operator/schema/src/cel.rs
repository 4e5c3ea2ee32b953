use std::fmt;
use std::sync::Arc;

use kube_cel::{CompiledSchema, Validator, compile_schema};
use serde_json::Value;

use crate::validate::value_at;
use crate::{FieldError, FieldErrorKind, Schema, SchemaError};

/// Compiled CEL rules of a schema and of all schemas below.
#[derive(Clone, Default)]
pub(crate) struct Rules(Option<Arc<CompiledSchema>>);

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rules").field(&self.0.is_some()).finish()
    }
}

impl Rules {
    pub(crate) fn compile(schema: &Value, has_rules: bool) -> Result<Self, SchemaError> {
        if !has_rules {
            return Ok(Self(None));
        }
        let compiled = compile_schema(schema);
        if let Some(error) = compiled.compilation_errors().first() {
            return Err(SchemaError::Rule { path: String::new(), message: error.to_string() });
        }
        Ok(Self(Some(Arc::new(compiled))))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn check(
        &self,
        schema: &Schema,
        object: &Value,
        old: Option<&Value>,
        errors: &mut Vec<FieldError>,
    ) {
        let Some(compiled) = &self.0 else { return };
        let Err(found) = Validator::new().validate_compiled(compiled, object, old) else { return };
        for error in found.as_slice() {
            let kind = match error.reason.as_deref() {
                Some("FieldValueRequired") => FieldErrorKind::Required,
                Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
                Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
                _ => FieldErrorKind::Invalid,
            };
            // The API server shows scalars and leaves out objects and lists.
            let value = value_at(object, &error.field_path);
            let value = value.filter(|value| {
                kind == FieldErrorKind::Invalid && !value.is_object() && !value.is_array()
            });
            let path = with_map_keys(schema, &error.field_path);
            errors.push(FieldError::new(&path, kind, value, error.message.clone()));
        }
    }
}

/// Writes keys of maps in brackets, as the API server does for rules, though not for bounds.
fn with_map_keys(schema: &Schema, path: &str) -> String {
    let mut schema = Some(schema);
    let mut written = String::new();
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        let (name, positions) = segment
            .split_once('[')
            .map_or((segment, ""), |(name, _)| (name, &segment[name.len()..]));
        let is_field = schema.is_some_and(|schema| schema.properties.contains_key(name));
        let is_key = !is_field && schema.is_some_and(|schema| schema.additional().is_some());
        let segment = if is_key { format!("[{name}]{positions}") } else { format!(".{segment}") };
        written.push_str(&segment);
        schema = schema.and_then(|schema| schema.field(name));
        for _ in positions.matches('[') {
            schema = schema.and_then(|schema| schema.items.as_deref());
        }
    }
    written
}
