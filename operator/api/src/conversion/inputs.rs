//! Inputs of a conversion: resources that have been fetched, and names of what exists.

use std::{collections::BTreeMap, sync::Arc};

use super::{Available, Checks};
use crate::{
    EmbeddingServer, MCPExternalAuthConfig, MCPOIDCConfig, MCPRemoteProxy, MCPServer,
    MCPServerEntry, MCPTelemetryConfig, MCPToolConfig, VirtualMCPCompositeToolDefinition,
    VirtualMCPServer, cluster_defaults::ClusterDefaults,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Everything that a conversion reads. All resources are in the namespace of the server.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The server.
    pub server: Arc<VirtualMCPServer>,
    /// Members of the server's group, in any order.
    pub members: Vec<Member>,
    /// MCPExternalAuthConfigs by name. Those that nothing refers to are ignored.
    pub external_auth_configs: BTreeMap<String, Arc<MCPExternalAuthConfig>>,
    /// MCPToolConfigs by name. Those that nothing refers to are ignored.
    pub tool_configs: BTreeMap<String, Arc<MCPToolConfig>>,
    /// VirtualMCPCompositeToolDefinitions by name. Those that nothing refers to are ignored.
    pub composite_tool_definitions: BTreeMap<String, Arc<VirtualMCPCompositeToolDefinition>>,
    /// The MCPOIDCConfig that the server refers to, if it exists.
    pub oidc_config: Option<Arc<MCPOIDCConfig>>,
    /// The MCPTelemetryConfig that the server refers to, if it exists.
    pub telemetry_config: Option<Arc<MCPTelemetryConfig>>,
    /// The EmbeddingServer that the server refers to, if it exists.
    pub embedding_server: Option<Arc<EmbeddingServer>>,
    /// Text of the ConfigMap's key that `spec.incomingAuth.authzConfig.configMap` names, if it exists.
    pub authorization_document: Option<String>,
    /// Settings of the cluster.
    pub defaults: ClusterDefaults,
    /// Keys of Secrets and ConfigMaps that exist.
    pub available: Available,
    /// Checks with the compilers of the server. With them, the conversion judges all resources by itself; without them, it also
    /// rejects those whose controller reports that they are invalid, and the server itself rejects the others.
    pub checks: Option<Arc<dyn Checks>>,
}

/// A member of a group.
#[derive(Clone, Debug)]
pub enum Member {
    /// An MCPServer.
    Server(Arc<MCPServer>),
    /// An MCPRemoteProxy.
    Proxy(Arc<MCPRemoteProxy>),
    /// An MCPServerEntry.
    Entry(Arc<MCPServerEntry>),
}

/// Kind of a member. Of members with equal names, the first kind in this order is the backend.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum MemberKind {
    /// An MCPServer.
    Server,
    /// An MCPRemoteProxy.
    Proxy,
    /// An MCPServerEntry.
    Entry,
}

// === impl Inputs ===

impl Inputs {
    /// Creates inputs with a server alone.
    #[must_use]
    pub fn new(server: impl Into<Arc<VirtualMCPServer>>) -> Self {
        Self {
            server: server.into(),
            members: Vec::new(),
            external_auth_configs: BTreeMap::new(),
            tool_configs: BTreeMap::new(),
            composite_tool_definitions: BTreeMap::new(),
            oidc_config: None,
            telemetry_config: None,
            embedding_server: None,
            authorization_document: None,
            defaults: ClusterDefaults::default(),
            available: Available::default(),
            checks: None,
        }
    }

    /// Returns the name of the server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.server.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the namespace of the server.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.server.metadata.namespace.as_deref().unwrap_or("default")
    }
}

// === impl Member ===

impl Member {
    /// Returns the kind of the member.
    #[must_use]
    pub fn kind(&self) -> MemberKind {
        match self {
            Self::Server(_) => MemberKind::Server,
            Self::Proxy(_) => MemberKind::Proxy,
            Self::Entry(_) => MemberKind::Entry,
        }
    }

    /// Returns the name of the member, which is that of its backend.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Returns the metadata of the member.
    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Server(server) => &server.metadata,
            Self::Proxy(proxy) => &proxy.metadata,
            Self::Entry(entry) => &entry.metadata,
        }
    }
}

// === impl MemberKind ===

impl MemberKind {
    /// Returns the kind as in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "MCPServer",
            Self::Proxy => "MCPRemoteProxy",
            Self::Entry => "MCPServerEntry",
        }
    }
}
