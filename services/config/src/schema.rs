//! JSON Schema (2020-12) of the configuration, for editors.
//!
//! The schema of each type also says in CEL what Kubernetes has to know of it (`x-kubernetes-validations`). Editors have the
//! same rules as `if` and `not`, so that these keywords are left out here.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

use crate::{Config, File, config_value::cel::KUBERNETES};

/// Returns the schema of the file that the server reads.
#[must_use]
pub fn schema() -> Value {
    for_editor::<File>()
}

/// Returns the schema of a resource's inline configuration.
#[must_use]
pub fn config_schema() -> Value {
    for_editor::<Config>()
}

fn for_editor<T: JsonSchema>() -> Value {
    let mut schema =
        SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    remove_kubernetes(&mut schema);
    schema
}

fn remove_kubernetes(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|key, _| !key.starts_with(KUBERNETES));
            object.values_mut().for_each(remove_kubernetes);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_kubernetes),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
