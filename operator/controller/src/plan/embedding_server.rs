//! Objects that are generated for an embedding server.

mod container;
mod pod;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec},
        core::v1::{
            PersistentVolumeClaim, PersistentVolumeClaimSpec, PodTemplateSpec, Service,
            ServicePort, ServiceSpec, VolumeResourceRequirements,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use kube::Resource as _;
use vmcp_api::{
    AccessMode, EmbeddingServer, MetadataOverrides, ModelCache,
    names::{embedding_service_name, embedding_set_name, instance_label},
};

use super::error::PlanError;
use crate::{Settings, names::FIELD_MANAGER, stores::MANAGED_BY};

/// Value of the label `app.kubernetes.io/name`.
const APPLICATION: &str = "embeddingserver";

/// Volume with the model.
const CACHE_VOLUME: &str = "model-cache";

/// Labels or annotations.
type Labels = BTreeMap<String, String>;

/// Objects of an embedding server, each with the server as its owner.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingPlan {
    /// The pods, with the volumes that keep the model.
    pub stateful_set: StatefulSet,
    /// Service for the optimizer.
    pub service: Service,
}

/// Plans the objects of an embedding server.
///
/// # Errors
///
/// An error of the resource that its schema does not show.
pub fn plan_embedding_server(
    server: &EmbeddingServer,
    settings: &Settings,
) -> Result<EmbeddingPlan, PlanError> {
    check_arguments(server)?;
    let template = pod::pod_template(server, settings)?;
    Ok(EmbeddingPlan { stateful_set: stateful_set(server, template), service: service(server) })
}

/// Refuses the arguments that follow from other fields, as the definition does.
fn check_arguments(server: &EmbeddingServer) -> Result<(), PlanError> {
    let fields = [("--model-id", "spec.model"), ("--port", "spec.port")];
    let found = server.spec.args.iter().enumerate().find_map(|(index, argument)| {
        let (_, field) = fields.into_iter().find(|(option, _)| argument.starts_with(option))?;
        Some((index, argument, field))
    });
    let Some((index, argument, field)) = found else { return Ok(()) };
    let message = format!("found {argument}; set {field}, and remove it");
    Err(PlanError::server(&format!("spec.args[{index}]"), message))
}

fn stateful_set(server: &EmbeddingServer, template: PodTemplateSpec) -> StatefulSet {
    let overrides = server.spec.resource_overrides.as_ref();
    let overrides = overrides.and_then(|overrides| overrides.stateful_set.as_ref());
    let cache = server.spec.model_cache.as_ref().filter(|cache| cache.enabled);
    StatefulSet {
        metadata: metadata(
            server,
            embedding_set_name(name(server)),
            overrides.map(|overrides| &overrides.metadata),
        ),
        spec: Some(StatefulSetSpec {
            replicas: Some(server.spec.replicas),
            // Replicas do not know of each other.
            pod_management_policy: Some("Parallel".to_owned()),
            service_name: Some(embedding_service_name(name(server))),
            selector: LabelSelector {
                match_labels: Some(pod_labels(server)),
                ..LabelSelector::default()
            },
            template,
            volume_claim_templates: cache.map(|cache| vec![claim(server, cache)]),
            persistent_volume_claim_retention_policy: cache.map(|_| retention()),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

/// Returns what becomes of the volumes: a model can be downloaded again, so that none outlives its replica.
fn retention() -> StatefulSetPersistentVolumeClaimRetentionPolicy {
    StatefulSetPersistentVolumeClaimRetentionPolicy {
        when_deleted: Some("Delete".to_owned()),
        when_scaled: Some("Delete".to_owned()),
    }
}

fn claim(server: &EmbeddingServer, cache: &ModelCache) -> PersistentVolumeClaim {
    let ModelCache { enabled: _, storage_class_name, size, access_mode } = cache;
    let mode = match access_mode {
        AccessMode::ReadWriteOnce => "ReadWriteOnce",
        AccessMode::ReadWriteMany => "ReadWriteMany",
        AccessMode::ReadOnlyMany => "ReadOnlyMany",
    };
    let overrides = server.spec.resource_overrides.as_ref();
    let overrides = overrides.and_then(|overrides| overrides.persistent_volume_claim.as_ref());
    let labels = with(overrides.map(|overrides| &overrides.labels), pod_labels(server));
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(CACHE_VOLUME.to_owned()),
            labels: Some(labels),
            annotations: annotations(overrides),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec![mode.to_owned()]),
            storage_class_name: storage_class_name.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), Quantity(size.clone()))].into()),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}

fn service(server: &EmbeddingServer) -> Service {
    let overrides = server.spec.resource_overrides.as_ref();
    let overrides = overrides.and_then(|overrides| overrides.service.as_ref());
    Service {
        metadata: metadata(server, embedding_service_name(name(server)), overrides),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(pod_labels(server)),
            ports: Some(vec![ServicePort {
                name: Some("http".to_owned()),
                port: server.spec.port,
                target_port: Some(IntOrString::Int(server.spec.port)),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn name(server: &EmbeddingServer) -> &str {
    server.metadata.name.as_deref().unwrap_or_default()
}

/// Returns the labels that select the pods. They never change: a StatefulSet's selector cannot.
fn pod_labels(server: &EmbeddingServer) -> Labels {
    Labels::from([
        ("app.kubernetes.io/name".to_owned(), APPLICATION.to_owned()),
        ("app.kubernetes.io/instance".to_owned(), instance_label(name(server))),
    ])
}

/// Returns the labels of an object, which no override changes.
fn labels(server: &EmbeddingServer) -> Labels {
    let mut labels = pod_labels(server);
    labels.insert("app.kubernetes.io/component".to_owned(), "embedding-server".to_owned());
    labels.insert(MANAGED_BY.to_owned(), FIELD_MANAGER.to_owned());
    labels
}

/// Returns `added`, with `own` over it.
fn with(added: Option<&Labels>, own: Labels) -> Labels {
    let mut labels = added.cloned().unwrap_or_default();
    labels.extend(own);
    labels
}

fn annotations(overrides: Option<&MetadataOverrides>) -> Option<Labels> {
    overrides.map(|overrides| overrides.annotations.clone()).filter(|added| !added.is_empty())
}

/// Returns the metadata of an object that is deleted with the server. A server that is not in a cluster owns nothing.
fn metadata(
    server: &EmbeddingServer,
    name: String,
    overrides: Option<&MetadataOverrides>,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: server.metadata.namespace.clone(),
        labels: Some(with(overrides.map(|overrides| &overrides.labels), labels(server))),
        annotations: annotations(overrides),
        owner_references: server.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}
