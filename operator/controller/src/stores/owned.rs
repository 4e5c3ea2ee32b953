//! Objects of built-in kinds: what tells whether an apply would change them.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::version_of;
use crate::names::{APPLIED_HASH, FIELD_MANAGER, SERVER_GENERATION};

/// Label of all objects that the operator makes.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Part of an object of a built-in kind that the operator keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Owned {
    pub(crate) uid: Box<str>,
    /// Resource version; 0 if it is not a number.
    pub(crate) version: u64,
    /// The owner that controls the object.
    pub(crate) controller: Option<Controller>,
    /// `true` if the operator's label is there.
    pub(crate) is_labeled: bool,
    /// Hash of what the operator applied last.
    pub(crate) applied_hash: Option<Box<str>>,
    /// Generation of the server that the operator applied the object for.
    pub(crate) server_generation: Option<i64>,
    /// The fields that the operator manages, as in `managedFields`.
    pub(crate) fields: Option<Box<str>>,
    /// State of a Deployment or StatefulSet.
    pub(crate) rollout: Option<Rollout>,
}

/// Owner that controls an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Controller {
    pub(crate) kind: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Box<str>,
}

/// State of a Deployment or StatefulSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rollout {
    /// Desired replicas.
    pub(crate) replicas: Option<i32>,
    /// Pods that exist.
    pub(crate) current_replicas: i32,
    pub(crate) ready_replicas: i32,
    /// Failure of the rollout: reason and message.
    pub(crate) failure: Option<Box<str>>,
}

// === impl Owned ===

impl Owned {
    pub(crate) fn of_metadata(metadata: ObjectMeta) -> Self {
        let version = version_of(&metadata);
        let annotation = |name: &str| metadata.annotations.as_ref()?.get(name).cloned();
        let owners = metadata.owner_references.into_iter().flatten();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        let entries = metadata.managed_fields.into_iter().flatten();
        let ours = entries.into_iter().find(|entry| {
            entry.manager.as_deref() == Some(FIELD_MANAGER)
                && entry.operation.as_deref() == Some("Apply")
                && entry.subresource.as_deref().unwrap_or_default().is_empty()
        });
        let label = metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY));
        Self {
            uid: metadata.uid.unwrap_or_default().into(),
            version,
            is_labeled: label.is_some_and(|value| value == FIELD_MANAGER),
            applied_hash: annotation(APPLIED_HASH).map(Into::into),
            server_generation: annotation(SERVER_GENERATION).and_then(|text| text.parse().ok()),
            fields: ours
                .and_then(|entry| entry.fields_v1)
                .map(|fields| fields.0.to_string().into()),
            controller: controller.map(|owner| Controller {
                kind: owner.kind.into(),
                name: owner.name.into(),
                uid: owner.uid.into(),
            }),
            rollout: None,
        }
    }

    pub(crate) fn of_deployment(deployment: Deployment) -> Self {
        let status = deployment.status.unwrap_or_default();
        let failure = status.conditions.into_iter().flatten().find(|condition| {
            match condition.type_.as_str() {
                "Progressing" => condition.status == "False",
                "ReplicaFailure" => condition.status == "True",
                _ => false,
            }
        });
        let failure = failure.map(|condition| {
            let reason = condition.reason.unwrap_or(condition.type_);
            format!("{reason}: {}", condition.message.unwrap_or_default()).into()
        });
        let rollout = Rollout {
            replicas: deployment.spec.and_then(|spec| spec.replicas),
            current_replicas: status.replicas.unwrap_or(0),
            ready_replicas: status.ready_replicas.unwrap_or(0),
            failure,
        };
        Self { rollout: Some(rollout), ..Self::of_metadata(deployment.metadata) }
    }

    pub(crate) fn of_stateful_set(set: StatefulSet) -> Self {
        let status = set.status.unwrap_or_default();
        let rollout = Rollout {
            replicas: set.spec.and_then(|spec| spec.replicas),
            current_replicas: status.replicas,
            ready_replicas: status.ready_replicas.unwrap_or(0),
            failure: None,
        };
        Self { rollout: Some(rollout), ..Self::of_metadata(set.metadata) }
    }
}
