//! Volumes of a pod, and their places in the container.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, SecretVolumeSource, Volume, VolumeMount,
};
use vmcp_api::{
    conversion::SECRETS_PATH,
    names::{config_map_name, owned_secret_name, seal_secret_name},
};

use super::{config_map::CONFIG_PATH, metadata::Owner};

/// Directory at which the Secret with the keys that replicas share is mounted.
pub const SEAL_PATH: &str = "/etc/vmcp/seal";

/// Writable directory.
const SCRATCH_PATH: &str = "/tmp";

const CONFIG_VOLUME: &str = "vmcp-config";
const SEAL_VOLUME: &str = "vmcp-seal";
const SECRETS_VOLUME: &str = "vmcp-secrets";
const SCRATCH_VOLUME: &str = "tmp";

/// Permissions of files with secrets: for the user and group of the pod.
const SECRET_MODE: i32 = 0o440;

/// Returns all volumes.
pub(super) fn volumes(owner: Owner<'_>) -> Vec<Volume> {
    let mut volumes = owned_volumes(owner);
    volumes.push(Volume {
        name: SCRATCH_VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    });
    volumes
}

/// Returns the volumes that a pod template cannot change.
pub(super) fn owned_volumes(owner: Owner<'_>) -> Vec<Volume> {
    let config = ConfigMapVolumeSource {
        name: config_map_name(owner.name()),
        ..ConfigMapVolumeSource::default()
    };
    // Without the keys that replicas share, a pod must not start: clients would lose their sessions at the next replica. The other
    // Secret may have nothing in it yet.
    let seal = secret(seal_secret_name(owner.name()), false);
    let secrets = secret(owned_secret_name(owner.name()), true);
    vec![
        Volume { name: CONFIG_VOLUME.to_owned(), config_map: Some(config), ..Volume::default() },
        Volume { name: SEAL_VOLUME.to_owned(), secret: Some(seal), ..Volume::default() },
        Volume { name: SECRETS_VOLUME.to_owned(), secret: Some(secrets), ..Volume::default() },
    ]
}

fn secret(name: String, is_optional: bool) -> SecretVolumeSource {
    SecretVolumeSource {
        secret_name: Some(name),
        default_mode: Some(SECRET_MODE),
        optional: is_optional.then_some(true),
        ..SecretVolumeSource::default()
    }
}

/// Returns the mounts that a pod template cannot change, and the writable directory.
pub(super) fn mounts() -> Vec<VolumeMount> {
    let mut mounts = owned_mounts();
    mounts.push(mount(SCRATCH_VOLUME, SCRATCH_PATH, None));
    mounts
}

/// Returns the mounts that a pod template cannot change. Whole directories, since a mount of one file never shows its changes.
pub(super) fn owned_mounts() -> Vec<VolumeMount> {
    vec![
        mount(CONFIG_VOLUME, CONFIG_PATH, Some(true)),
        mount(SEAL_VOLUME, SEAL_PATH, Some(true)),
        mount(SECRETS_VOLUME, SECRETS_PATH, Some(true)),
    ]
}

fn mount(volume: &str, path: &str, read_only: Option<bool>) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only,
        ..VolumeMount::default()
    }
}
