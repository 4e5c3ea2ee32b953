//! Check that the server can write its audit events.

use std::path::Path;

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use vmcp_api::conversion::Conversion;

use super::{container::CONTAINER, error::PlanError};

/// Checks that the file of audit events is on a volume that the server can write to: its root file system is read-only, and would
/// be lost with the container.
///
/// # Errors
///
/// The file is outside such a volume.
pub(super) fn check(template: &PodTemplateSpec, conversion: &Conversion) -> Result<(), PlanError> {
    let audit = &conversion.file.audit;
    let file = audit.log_file.as_deref().filter(|file| audit.enabled && !file.is_empty());
    let Some(file) = file else { return Ok(()) };
    let mut containers = template.spec.iter().flat_map(|spec| &spec.containers);
    let container = containers.find(|container| container.name == CONTAINER);
    if container.is_some_and(|container| is_writable(container, Path::new(file))) {
        return Ok(());
    }
    let message = format!(
        "`{file}` is on no volume that the server can write to: mount one at its directory, in the container {CONTAINER} of \
         spec.podTemplateSpec, or remove the field to write to standard output"
    );
    Err(PlanError::server("spec.config.audit.logFile", message))
}

/// Returns `true` if the volume with the file can be written to. A volume hides those above it.
fn is_writable(container: &Container, file: &Path) -> bool {
    let mounts = container.volume_mounts.iter().flatten();
    let above = mounts.filter(|mount| {
        let path = Path::new(&mount.mount_path);
        file != path && file.starts_with(path)
    });
    let nearest = above.max_by_key(|mount| Path::new(&mount.mount_path).components().count());
    nearest.is_some_and(|mount| !mount.read_only.unwrap_or(false))
}
