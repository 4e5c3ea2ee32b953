//! Pod template of a Deployment: the generated one, with that of the spec merged over it.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use vmcp_api::conversion::Conversion;
use vmcp_strategic_merge::ObjectType;

use super::{
    arguments::combine,
    container::CONTAINER,
    error::PlanError,
    metadata::Owner,
    owned::impose,
    pod::{pod_template as generate, service_account},
    pod_patch::{PodPatch, parse},
    shutdown::Shutdown,
};
use crate::Settings;

/// Plans the template.
///
/// # Errors
///
/// An error of the spec's template.
pub(super) fn pod_template(
    owner: Owner<'_>,
    conversion: &Conversion,
    checksum: &str,
    settings: &Settings,
) -> Result<PodTemplateSpec, PlanError> {
    let patch = PodPatch::read(owner.server.spec.pod_template_spec.as_ref())?;
    let shutdown = Shutdown::new(patch.as_ref().and_then(PodPatch::grace_period));
    let generated = generate(owner, conversion, checksum, shutdown, settings);
    let Some(patch) = patch else { return Ok(generated) };
    check_service_account(&patch, owner)?;
    let arguments = arguments(&generated, &patch)?;
    let mut template = merge(&generated, patch)?;
    impose(&mut template, owner, checksum, arguments)?;
    Ok(template)
}

/// Refuses another account than that of the spec, to which the permissions belong.
fn check_service_account(patch: &PodPatch, owner: Owner<'_>) -> Result<(), PlanError> {
    match patch.service_account() {
        Some(named) if named != service_account(owner) => {
            let message = format!("set spec.serviceAccount to `{named}`, and remove this field");
            Err(PlanError::pod_template("spec.serviceAccountName", message))
        }
        Some(_) | None => Ok(()),
    }
}

/// Merges a patch over a generated template.
///
/// # Errors
///
/// The first part of the patch that cannot be merged.
pub(super) fn merge(
    generated: &PodTemplateSpec,
    patch: PodPatch,
) -> Result<PodTemplateSpec, PlanError> {
    let generated = serde_json::to_value(generated)
        .map_err(|error| PlanError::pod_template("", error.to_string()))?;
    let merged = ObjectType::pod_template_spec().merge(generated, patch.into_value());
    let merged =
        merged.map_err(|error| PlanError::pod_template(&error.path(), error.kind().to_string()))?;
    parse(&merged)
}

/// Returns the arguments of the server: the generated ones, and those that the patch adds.
fn arguments(generated: &PodTemplateSpec, patch: &PodPatch) -> Result<Vec<String>, PlanError> {
    let spec = generated.spec.as_ref();
    let generated = spec.and_then(|spec| spec.containers.first()?.args.clone()).unwrap_or_default();
    let Some((list, added)) = patch.arguments(CONTAINER) else { return Ok(generated) };
    combine(generated, added)
        .map_err(|(index, message)| PlanError::pod_template(&format!("{list}[{index}]"), message))
}
