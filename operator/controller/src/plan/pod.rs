//! Generated pod template, before that of the spec is merged over it.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        ConfigMapVolumeSource, EmptyDirVolumeSource, LocalObjectReference, PodSecurityContext,
        PodSpec, PodTemplateSpec, SeccompProfile, SecretVolumeSource, Volume,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use vmcp_api::{
    conversion::Conversion,
    names::{account_name, config_map_name, owned_secret_name, seal_secret_name},
};

use super::{container::container, metadata::Owner, shutdown::Shutdown};
use crate::Settings;

/// Directory at which the Secret with the keys that replicas share is mounted.
pub const SEAL_PATH: &str = "/etc/vmcp/seal";

/// Writable directory.
pub(super) const SCRATCH_PATH: &str = "/tmp";

pub(super) const CONFIG_VOLUME: &str = "vmcp-config";
pub(super) const SEAL_VOLUME: &str = "vmcp-seal";
pub(super) const SECRETS_VOLUME: &str = "vmcp-secrets";
pub(super) const SCRATCH_VOLUME: &str = "tmp";

/// Annotation of pods with the digest of the configuration: another configuration rolls the pods.
pub const CHECKSUM: &str = "vmcp.dev/config-checksum";

/// User and group of the server, except on OpenShift.
const USER: i64 = 1000;

/// Permissions of files with secrets: for the user and group of the pod.
const SECRET_MODE: i32 = 0o440;

/// Plans the template.
pub(super) fn pod_template(
    owner: Owner<'_>,
    conversion: &Conversion,
    checksum: &str,
    shutdown: Shutdown,
    settings: &Settings,
) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(owner.labels()),
            annotations: Some(owned_annotations(checksum)),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            service_account_name: Some(service_account(owner)),
            image_pull_secrets: pull_secrets(owner, settings),
            containers: vec![container(owner, conversion, shutdown, settings)],
            volumes: Some(volumes(owner)),
            security_context: Some(security_context(settings)),
            // Variables of other Services could be taken for options of the server.
            enable_service_links: Some(false),
            termination_grace_period_seconds: Some(shutdown.grace),
            ..PodSpec::default()
        }),
    }
}

/// Returns the annotations that a pod template cannot change.
pub(super) fn owned_annotations(checksum: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(CHECKSUM.to_owned(), checksum.to_owned())])
}

/// Returns the name of the pods' ServiceAccount.
pub(super) fn service_account(owner: Owner<'_>) -> String {
    owner.existing_account().map_or_else(|| account_name(owner.name()), str::to_owned)
}

/// Returns the Secrets with credentials for the image registry: those of the spec, then those of the operator's settings.
fn pull_secrets(owner: Owner<'_>, settings: &Settings) -> Option<Vec<LocalObjectReference>> {
    let mut names: Vec<&str> = Vec::new();
    let of_spec = owner.server.spec.image_pull_secrets.iter().map(|reference| &*reference.name);
    for name in of_spec.chain(settings.image_pull_secrets.iter().map(String::as_str)) {
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    let references: Vec<_> =
        names.into_iter().map(|name| LocalObjectReference { name: name.to_owned() }).collect();
    (!references.is_empty()).then_some(references)
}

/// Returns all volumes.
fn volumes(owner: Owner<'_>) -> Vec<Volume> {
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

fn security_context(settings: &Settings) -> PodSecurityContext {
    // OpenShift assigns the user and the groups, and refuses others.
    let user = (!settings.is_openshift).then_some(USER);
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: user,
        run_as_group: user,
        fs_group: user,
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..PodSecurityContext::default()
    }
}
