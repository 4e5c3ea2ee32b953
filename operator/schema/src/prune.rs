use serde_json::Value;

use crate::Schema;
use crate::validate::{child, index};

/// Fields of each Kubernetes object, which no schema has to name.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Removes the fields that the schema of a custom resource does not name, and returns their paths in order.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        let is_root = true;
        prune(Some(self), object, "", is_root, &mut unknown);
        unknown.sort();
        unknown
    }
}

fn prune(
    schema: Option<&Schema>,
    value: &mut Value,
    path: &str,
    is_resource: bool,
    unknown: &mut Vec<String>,
) {
    let preserves = schema.is_some_and(|schema| schema.preserve_unknown_fields);
    let is_resource = is_resource || schema.is_some_and(|schema| schema.embedded_resource);
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            if is_resource && META_FIELDS.contains(&name.as_str()) {
                return true;
            }
            let path = child(path, name);
            let field = schema.and_then(|schema| schema.field(name));
            let allows_any = schema.is_some_and(Schema::allows_any);
            if field.is_none() && !preserves {
                if allows_any {
                    return true;
                }
                unknown.push(path.strip_prefix('.').unwrap_or(&path).to_owned());
                return false;
            }
            if field.is_some() {
                prune(field, value, &path, false, unknown);
            }
            true
        }),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            if preserves && schema.is_none() {
                return;
            }
            for (position, item) in items.iter_mut().enumerate() {
                prune(schema, item, &index(path, position), false, unknown);
            }
        }
        _ => {}
    }
}

impl Schema {
    /// Returns whether `additionalProperties` is `true`.
    fn allows_any(&self) -> bool {
        matches!(self.additional_properties, Some(crate::AdditionalProperties::Allowed(true)))
    }
}
