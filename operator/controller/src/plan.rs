//! Objects that are generated for a server.
//!
//! Planning is pure: the same resource, configuration and settings have the same plan.

mod access;
mod arguments;
mod audit_file;
mod config_map;
mod container;
mod deployment;
mod embedding_server;
mod error;
mod lease;
mod metadata;
mod objects;
mod optional_objects;
mod owned;
mod pod;
mod pod_patch;
mod pod_security;
mod pod_template;
mod secret;
mod service;
mod shutdown;
mod volumes;

use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Secret, Service},
};
use vmcp_api::{VirtualMCPServer, conversion::Conversion};

use self::metadata::Owner;
pub use self::{
    access::Access,
    config_map::{CONFIG_FILE, CONFIG_PATH},
    container::CONTAINER,
    embedding_server::{EmbeddingPlan, plan_embedding_server},
    error::PlanError,
    optional_objects::OptionalObjects,
    pod::CHECKSUM,
    secret::SEAL_KEY,
    volumes::SEAL_PATH,
};
use crate::Settings;
pub use crate::external_kinds::{HTTPRoute, ServiceMonitor};

/// Objects of a server, each with the server as its owner.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// ServiceAccount with its permissions, unless the spec names an existing account.
    pub access: Option<Access>,
    /// Secret with the keys that replicas share, without its content: it is created once, with a random key under
    /// [`SEAL_KEY`], and never changed.
    pub seal_secret: Secret,
    /// Secret with copies of the keys that the server refers to, without its content.
    pub owned_secret: Secret,
    /// The configuration.
    pub config_map: ConfigMap,
    /// The pods.
    pub deployment: Deployment,
    /// Service for clients.
    pub service: Service,
    /// Headless Service with the addresses of all replicas.
    pub peer_service: Service,
    /// Lease whose holder reports the status of the backends.
    pub status_lease: Lease,
    /// Objects that the spec asks for.
    pub optional: OptionalObjects,
}

/// Plans the objects of a server.
///
/// # Errors
///
/// An error of the resource that neither its schema nor the conversion shows.
pub fn plan(
    server: &VirtualMCPServer,
    conversion: &Conversion,
    settings: &Settings,
) -> Result<Plan, PlanError> {
    let owner = Owner { server };
    let config_map = config_map::config_map(owner, conversion);
    let checksum = config_map::checksum(&config_map);
    let template = pod_template::pod_template(owner, conversion, &checksum, settings)?;
    audit_file::check(&template, conversion)?;
    Ok(Plan {
        access: access::access(owner, conversion.file.outgoing_auth.source),
        seal_secret: secret::seal_secret(owner),
        owned_secret: secret::owned_secret(owner),
        config_map,
        deployment: deployment::deployment(owner, template),
        service: service::service(owner),
        peer_service: service::peer_service(owner),
        status_lease: lease::status_lease(owner),
        optional: optional_objects::optional_objects(owner, conversion)?,
    })
}
