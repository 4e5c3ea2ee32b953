//! Deployment of a server.

use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentSpec},
    core::v1::PodTemplateSpec,
};
use vmcp_api::names::deployment_name;

use super::metadata::Owner;

/// Plans the Deployment. Without `replicas` in the spec it has none either, so that an autoscaler owns the field.
pub(super) fn deployment(owner: Owner<'_>, template: PodTemplateSpec) -> Deployment {
    Deployment {
        metadata: owner.metadata(deployment_name(owner.name())),
        spec: Some(DeploymentSpec {
            replicas: owner.server.spec.replicas,
            selector: owner.selector(),
            template,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}
