//! Services of a server: for clients, and for its replicas.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use vmcp_api::{
    names::{SERVER_PORT, peer_service_name, service_name},
    virtual_mcp_server::{ServiceType, SessionAffinity},
};

use super::{arguments::PEER_PORT, metadata::Owner};

/// Plans the Service for clients.
pub(super) fn service(owner: Owner<'_>) -> Service {
    let spec = &owner.server.spec;
    let service_type = match spec.service_type {
        ServiceType::ClusterIP => "ClusterIP",
        ServiceType::NodePort => "NodePort",
        ServiceType::LoadBalancer => "LoadBalancer",
    };
    let affinity = match spec.session_affinity {
        SessionAffinity::ClientIP => "ClientIP",
        SessionAffinity::None => "None",
    };
    Service {
        metadata: owner.metadata(service_name(owner.name())),
        spec: Some(ServiceSpec {
            type_: Some(service_type.to_owned()),
            session_affinity: Some(affinity.to_owned()),
            selector: Some(owner.pod_labels()),
            ports: Some(vec![port("http", SERVER_PORT)]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Plans the headless Service whose addresses are those of all replicas. It lists replicas that are not ready too: one that starts
/// or drains has no new clients, but others still forward to it what belongs to its sessions.
pub(super) fn peer_service(owner: Owner<'_>) -> Service {
    Service {
        metadata: owner.metadata(peer_service_name(owner.name())),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(owner.pod_labels()),
            ports: Some(vec![port("peers", PEER_PORT)]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn port(name: &str, number: u16) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: number.into(),
        target_port: Some(IntOrString::Int(number.into())),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    }
}
