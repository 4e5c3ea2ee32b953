//! Pod template of an embedding server: the generated one, with that of the spec merged over it.

use k8s_openapi::{
    api::core::v1::{
        EmptyDirVolumeSource, LocalObjectReference, PodSecurityContext, PodSpec, PodTemplateSpec,
        Volume,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use vmcp_api::EmbeddingServer;

use super::{
    CACHE_VOLUME, annotations,
    container::{CONTAINER, SCRATCH_VOLUME, container},
    labels, pod_labels, with,
};
use crate::{
    Settings,
    plan::{
        error::PlanError,
        pod_patch::{PodPatch, check_restarts},
        pod_security::pod_security_context,
        pod_template::merge,
    },
};

/// Plans the template.
///
/// # Errors
///
/// An error of the spec's template.
pub(super) fn pod_template(
    server: &EmbeddingServer,
    settings: &Settings,
) -> Result<PodTemplateSpec, PlanError> {
    let generated = generate(server, settings);
    let Some(patch) = PodPatch::read(server.spec.pod_template_spec.as_ref())? else {
        return Ok(generated);
    };
    if let Some((path, _)) = patch.arguments(CONTAINER) {
        let message = "these arguments would replace those of the model: set spec.args";
        return Err(PlanError::pod_template(&path, message));
    }
    let mut template = merge(&generated, patch)?;
    let metadata = template.metadata.get_or_insert_default();
    metadata.labels.get_or_insert_default().extend(pod_labels(server));
    // A template has no name.
    (metadata.name, metadata.namespace) = (None, None);
    let spec = template.spec.get_or_insert_default();
    check_restarts(spec)?;
    if spec.containers.iter().all(|container| container.name != CONTAINER) {
        let message = format!("the container {CONTAINER} is the server: it cannot be deleted");
        return Err(PlanError::pod_template("spec.containers", message));
    }
    Ok(template)
}

fn generate(server: &EmbeddingServer, settings: &Settings) -> PodTemplateSpec {
    let overrides = server.spec.resource_overrides.as_ref();
    let overrides = overrides.and_then(|overrides| overrides.stateful_set.as_ref());
    let overrides =
        overrides.and_then(|overrides| overrides.pod_template_metadata_overrides.as_ref());
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(with(overrides.map(|overrides| &overrides.labels), labels(server))),
            annotations: annotations(overrides),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            // The server asks nothing of the API server.
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            image_pull_secrets: pull_secrets(settings),
            containers: vec![container(server)],
            volumes: Some(volumes(server)),
            security_context: Some(security_context(settings)),
            ..PodSpec::default()
        }),
    }
}

/// Returns the Secrets with credentials for the image registry that the operator's settings name.
fn pull_secrets(settings: &Settings) -> Option<Vec<LocalObjectReference>> {
    let names = settings.image_pull_secrets.iter();
    let references: Vec<_> =
        names.map(|name| LocalObjectReference { name: name.clone() }).collect();
    (!references.is_empty()).then_some(references)
}

/// Returns the volumes, which are as large as the disk of the node permits. A claim of the StatefulSet takes the place of the first.
fn volumes(server: &EmbeddingServer) -> Vec<Volume> {
    let has_claim = server.spec.model_cache.as_ref().is_some_and(|cache| cache.enabled);
    let names = [(CACHE_VOLUME, !has_claim), (SCRATCH_VOLUME, true)];
    let names = names.into_iter().filter(|(_, is_empty)| *is_empty);
    names
        .map(|(name, _)| Volume {
            name: name.to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        })
        .collect()
}

fn security_context(settings: &Settings) -> PodSecurityContext {
    PodSecurityContext {
        // A model has many files, whose owner is right after the first start.
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        ..pod_security_context(settings)
    }
}
