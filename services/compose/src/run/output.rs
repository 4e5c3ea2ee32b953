//! Output of a run.

use std::sync::Arc;

use serde_json::{Map, Value};
use vmcp_config::composite::OutputType;

use super::progress::Results;
use super::scope::Scope;
use crate::coerce::{self, NO_VALUE};
use crate::limits::{MAX_RUN_OUTPUT_BYTES, json_bytes, shorten};
use crate::plan::{PlannedOutput, PlannedProperty, PropertySource};
use crate::record::null;
use crate::{RunError, RunErrorKind, StepStatus};

/// Makes the output: as `output` says, or else that of the last step of the definition that completed.
pub(super) fn construct(scope: &Scope<'_>, results: &Results) -> Result<Arc<Value>, RunError> {
    let Some(output) = &scope.plan.output else {
        let last = (0..scope.plan.steps.len())
            .rev()
            .filter_map(|step| results.get(step))
            .find(|result| result.status == StepStatus::Completed);
        return Ok(last.map_or_else(null, |result| result.output.clone()));
    };
    let PlannedOutput { properties, required } = output;
    let members = construct_all(scope, results, properties).map_err(|message| {
        let message = format!("failed to construct the output: {message}");
        RunError::new(RunErrorKind::OutputFailed, message)
    })?;
    let is_absent = |name: &&String| members.get(*name).is_none_or(Value::is_null);
    if let Some(name) = required.iter().find(is_absent) {
        let message = format!("failed to construct the output: \"{name}\" has no value");
        return Err(RunError::new(RunErrorKind::OutputFailed, message));
    }
    let output = Value::Object(members);
    if json_bytes(&output) > MAX_RUN_OUTPUT_BYTES {
        let limit = MAX_RUN_OUTPUT_BYTES / 1024 / 1024;
        let message = format!("failed to construct the output: it is larger than {limit} MiB");
        return Err(RunError::new(RunErrorKind::OutputFailed, message));
    }
    Ok(Arc::new(output))
}

fn construct_all(
    scope: &Scope<'_>,
    results: &Results,
    properties: &[PlannedProperty],
) -> Result<Map<String, Value>, String> {
    let mut members = Map::new();
    for property in properties {
        let value = match construct_one(scope, results, property) {
            Ok(value) => value,
            Err(message) => property.default.clone().ok_or(message)?,
        };
        members.insert(property.name.clone(), value);
    }
    Ok(members)
}

fn construct_one(
    scope: &Scope<'_>,
    results: &Results,
    property: &PlannedProperty,
) -> Result<Value, String> {
    let place = &property.path;
    let expression = match &property.source {
        PropertySource::Properties(properties) => {
            return construct_all(scope, results, properties).map(Value::Object);
        }
        PropertySource::Template(expression) => expression,
    };
    let text = scope
        .render(expression, results, None)
        .map_err(|error| format!("failed to render {place}: {error}"))?;
    if text == NO_VALUE {
        return Err(format!("{place} has no value: set a default"));
    }
    coerce::text(&text, property.kind).ok_or_else(|| {
        let hint = match property.kind {
            OutputType::Object | OutputType::Array => ": use json to write JSON",
            _ => "",
        };
        format!("{place} is not of type {}{hint}; found \"{}\"", property.kind, shorten(&text))
    })
}
