//! Settings of the cluster.

use vmcp_config::SecretRef;

/// Settings of the cluster, which servers without settings of their own use.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterDefaults {
    /// DNS domain of the cluster.
    pub domain: String,
    /// Storage of sessions.
    pub redis: Option<DefaultRedis>,
}

/// Redis storage of sessions for all servers without `sessionStorage`.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultRedis {
    /// Address of Redis.
    pub address: String,
    /// Secret with the password, in the namespace of each server.
    pub password: Option<SecretRef>,
}

// === impl ClusterDefaults ===

impl Default for ClusterDefaults {
    fn default() -> Self {
        Self { domain: "cluster.local".to_owned(), redis: None }
    }
}
