//! JSON Schema (2020-12) of the configuration, for editors.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::{Config, File};

/// Returns the schema of the file that the server reads.
#[must_use]
pub fn schema() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<File>().to_value()
}

/// Returns the schema of a resource's inline configuration.
#[must_use]
pub fn config_schema() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Config>().to_value()
}
