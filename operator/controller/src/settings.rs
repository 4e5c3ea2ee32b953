//! Settings of the operator that generated objects depend on.

use std::net::{IpAddr, Ipv4Addr};

use vmcp_api::conversion::ClusterDefaults;

/// Settings that are the same for all servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Image of the server.
    pub image: String,
    /// Secrets with credentials for the image registry, for the pods of all servers.
    pub image_pull_secrets: Vec<String>,
    /// `true` if OpenShift assigns the user and the groups of each pod.
    pub is_openshift: bool,
    /// Address on which servers listen: `::` in a cluster of IPv6.
    pub listen: IpAddr,
    /// Settings of the cluster, which servers without settings of their own use.
    pub defaults: ClusterDefaults,
}

// === impl Settings ===

impl Settings {
    /// Creates settings with an image, for a cluster of IPv4 other than OpenShift.
    #[must_use]
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            image: image.into(),
            image_pull_secrets: Vec::new(),
            is_openshift: false,
            listen: Ipv4Addr::UNSPECIFIED.into(),
            defaults: ClusterDefaults::default(),
        }
    }
}
