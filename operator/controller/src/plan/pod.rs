//! Generated pod template, before that of the spec is merged over it.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{LocalObjectReference, PodSpec, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use vmcp_api::{conversion::Conversion, names::account_name};

use super::{
    container::container, metadata::Owner, pod_security::pod_security_context, shutdown::Shutdown,
    volumes::volumes,
};
use crate::Settings;

/// Annotation of pods with the digest of the configuration: another configuration rolls the pods.
pub const CHECKSUM: &str = "vmcp.dev/config-checksum";

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
            security_context: Some(pod_security_context(settings)),
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
