use serde_json::{Map, Value};

use crate::Schema;

impl Schema {
    /// Removes `null` from fields that are not nullable, then fills in defaults.
    pub fn apply_defaults(&self, object: &mut Value) {
        self.drop_nulls(object);
        self.fill(object);
    }

    fn drop_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                let is_kept = |name: &String, value: &mut Value| {
                    let Some(schema) = self.field(name) else { return true };
                    if value.is_null() {
                        return schema.nullable;
                    }
                    schema.drop_nulls(value);
                    true
                };
                fields.retain(is_kept);
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        schema.drop_nulls(item);
                    }
                }
            }
            _ => {}
        }
    }

    fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => self.fill_fields(fields),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        schema.fill(item);
                    }
                }
            }
            _ => {}
        }
    }

    fn fill_fields(&self, fields: &mut Map<String, Value>) {
        for (name, schema) in &self.properties {
            if let (false, Some(default)) = (fields.contains_key(name), &schema.default) {
                fields.insert(name.clone(), default.clone());
            }
        }
        for (name, value) in fields {
            if let Some(schema) = self.field(name) {
                schema.fill(value);
            }
        }
    }

    /// Returns the schema of a field of this object or map.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or_else(|| self.additional())
    }
}
