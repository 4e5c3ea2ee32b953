//! Pod template of a spec, as a user wrote it: a strategic merge patch.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};
use serde_json::{Number, Value};
use vmcp_api::FreeForm;

use super::error::PlanError;

/// Maps whose values are quantities.
const QUANTITY_MAPS: [&str; 3] = ["limits", "requests", "overhead"];

/// Fields that are quantities.
const QUANTITIES: [&str; 2] = ["sizeLimit", "divisor"];

/// A patch whose fields exist and have the right types.
#[derive(Debug)]
pub(super) struct PodPatch {
    value: Value,
    /// The patch without its directives.
    template: PodTemplateSpec,
}

// === impl PodPatch ===

impl PodPatch {
    /// Reads the patch of a spec, if it has one.
    ///
    /// # Errors
    ///
    /// The first field that a pod template does not have, or that has another type there.
    pub(super) fn read(patch: Option<&FreeForm>) -> Result<Option<Self>, PlanError> {
        let Some(patch) = patch else { return Ok(None) };
        let mut value = Value::Object(patch.0.clone());
        spell_quantities(&mut value);
        let fields = without_directives(&value);
        let template = parse(&fields)?;
        let known = serde_json::to_value(&template)
            .map_err(|error| PlanError::pod_template("", error.to_string()))?;
        if let Some(path) = unknown_field(&fields, &known, "") {
            return Err(PlanError::pod_template(&path, "a pod template has no field of this name"));
        }
        Ok(Some(Self { value, template }))
    }

    pub(super) fn into_value(self) -> Value {
        self.value
    }

    pub(super) fn grace_period(&self) -> Option<i64> {
        self.template.spec.as_ref()?.termination_grace_period_seconds
    }

    /// Returns the arguments of a container, with the path of the list.
    pub(super) fn arguments(&self, container: &str) -> Option<(String, &[String])> {
        let containers = &self.template.spec.as_ref()?.containers;
        let index = containers.iter().position(|one| one.name == container)?;
        let arguments = containers[index].args.as_deref()?;
        Some((format!("spec.containers[{index}].args"), arguments))
    }

    /// Returns the ServiceAccount that the patch names.
    pub(super) fn service_account(&self) -> Option<&str> {
        let spec = self.template.spec.as_ref()?;
        spec.service_account_name.as_deref().or(spec.service_account.as_deref())
    }
}

/// Parses a pod template.
///
/// # Errors
///
/// The first value of a wrong type.
pub(super) fn parse(value: &Value) -> Result<PodTemplateSpec, PlanError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { String::new() } else { path };
        PlanError::pod_template(&path, error.into_inner().to_string())
    })
}

/// Refuses pods that end.
pub(super) fn check_restarts(spec: &PodSpec) -> Result<(), PlanError> {
    if spec.restart_policy.as_deref().is_some_and(|policy| policy != "Always") {
        let message = "pods of a server are always restarted: remove the field";
        return Err(PlanError::pod_template("spec.restartPolicy", message));
    }
    Ok(())
}

/// Writes quantities such as 0.5 as text, as the API server reads them.
fn spell_quantities(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(spell_quantities),
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::Object(amounts) if QUANTITY_MAPS.contains(&&**name) => {
                        amounts.values_mut().for_each(spell);
                    }
                    Value::Number(_) if QUANTITIES.contains(&&**name) => spell(field),
                    other => spell_quantities(other),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn spell(value: &mut Value) {
    if let Some(number) = value.as_number().map(Number::to_string) {
        *value = Value::String(number);
    }
}

/// Returns a patch without its directives and deletions, which are no fields.
fn without_directives(patch: &Value) -> Value {
    match patch {
        Value::Array(items) => items.iter().map(without_directives).collect(),
        Value::Object(fields) => {
            let kept =
                fields.iter().filter(|(name, value)| !name.starts_with('$') && !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_directives(value))).collect()
        }
        scalar => scalar.clone(),
    }
}

/// Returns the path of the first field that parsing dropped.
fn unknown_field(written: &Value, known: &Value, path: &str) -> Option<String> {
    match (written, known) {
        (Value::Object(written), Value::Object(known)) => {
            // In order, so that the same one is reported each time.
            let written: BTreeMap<_, _> = written.iter().collect();
            written.into_iter().find_map(|(name, value)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match known.get(name) {
                    Some(known) => unknown_field(value, known, &path),
                    None => Some(path),
                }
            })
        }
        (Value::Array(written), Value::Array(known)) => {
            written.iter().zip(known).enumerate().find_map(|(index, (written, known))| {
                unknown_field(written, known, &format!("{path}[{index}]"))
            })
        }
        _ => None,
    }
}
