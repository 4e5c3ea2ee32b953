//! Parts of a pod that follow from its server, and that a pod template cannot change.

use k8s_openapi::{
    api::core::v1::{Container, PodSpec, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{
    container::{CONTAINER, owned_environment},
    error::PlanError,
    metadata::Owner,
    pod::owned_annotations,
    pod_patch::check_restarts,
    volumes::{owned_mounts, owned_volumes},
};

/// Puts the owned parts back into a template that was patched, with the arguments of the server.
///
/// # Errors
///
/// The patch deleted the container of the server, or its pods would not be restarted.
pub(super) fn impose(
    template: &mut PodTemplateSpec,
    owner: Owner<'_>,
    checksum: &str,
    arguments: Vec<String>,
) -> Result<(), PlanError> {
    let metadata = template.metadata.get_or_insert_default();
    impose_metadata(metadata, owner, checksum);
    let spec = template.spec.get_or_insert_default();
    check_restarts(spec)?;
    impose_volumes(spec, owner);
    let container = spec.containers.iter_mut().find(|container| container.name == CONTAINER);
    let Some(container) = container else {
        let message = format!("the container {CONTAINER} is the server: it cannot be deleted");
        return Err(PlanError::pod_template("spec.containers", message));
    };
    impose_container(container, owner);
    container.args = Some(arguments);
    Ok(())
}

fn impose_metadata(metadata: &mut ObjectMeta, owner: Owner<'_>, checksum: &str) {
    metadata.labels.get_or_insert_default().extend(owner.pod_labels());
    metadata.annotations.get_or_insert_default().extend(owned_annotations(checksum));
    // A template has no name.
    (metadata.name, metadata.namespace) = (None, None);
}

fn impose_volumes(spec: &mut PodSpec, owner: Owner<'_>) {
    let mut volumes = owned_volumes(owner);
    let others = spec.volumes.take().unwrap_or_default();
    let is_owned = |name: &str| volumes.iter().any(|volume| volume.name == name);
    let others: Vec<_> = others.into_iter().filter(|volume| !is_owned(&volume.name)).collect();
    volumes.extend(others);
    spec.volumes = Some(volumes);
}

fn impose_container(container: &mut Container, owner: Owner<'_>) {
    let mut mounts = owned_mounts();
    let others = container.volume_mounts.take().unwrap_or_default();
    let is_owned = |path: &str| mounts.iter().any(|mount| mount.mount_path == path);
    let others: Vec<_> = others.into_iter().filter(|mount| !is_owned(&mount.mount_path)).collect();
    mounts.extend(others);
    container.volume_mounts = Some(mounts);

    let mut variables = owned_environment(owner);
    let others = container.env.take().unwrap_or_default();
    let is_owned = |name: &str| variables.iter().any(|variable| variable.name == name);
    let others: Vec<_> = others.into_iter().filter(|variable| !is_owned(&variable.name)).collect();
    variables.extend(others);
    container.env = Some(variables);
}
