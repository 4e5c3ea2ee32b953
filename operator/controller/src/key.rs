//! Names of objects and kinds.

use std::fmt;
use std::sync::Arc;

use kube::ResourceExt;

/// Namespace and name of an object. Ordered by namespace, then name.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Key {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// Kind of a watched object.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Kind {
    VirtualMCPServer,
    MCPGroup,
    MCPServer,
    MCPRemoteProxy,
    MCPServerEntry,
    MCPExternalAuthConfig,
    MCPOIDCConfig,
    MCPTelemetryConfig,
    MCPToolConfig,
    VirtualMCPCompositeToolDefinition,
    EmbeddingServer,
    ConfigMap,
    Secret,
    ServiceAccount,
    Role,
    RoleBinding,
    Deployment,
    StatefulSet,
    Service,
    PodDisruptionBudget,
    NetworkPolicy,
    Ingress,
    HTTPRoute,
    ServiceMonitor,
}

/// Object of a kind.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct ObjectKey {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
}

// === impl Key ===

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub(crate) fn of<K: ResourceExt>(object: &K) -> Self {
        Self::new(&object.namespace().unwrap_or_default(), &object.name_any())
    }

    /// Returns the key of an object of the same namespace.
    pub(crate) fn sibling(&self, name: &str) -> Self {
        Self { namespace: Arc::clone(&self.namespace), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl Kind ===

impl Kind {
    /// Returns whether a controller reconciles objects of the kind.
    pub(crate) fn has_controller(self) -> bool {
        match self {
            Self::VirtualMCPServer
            | Self::MCPGroup
            | Self::MCPServer
            | Self::MCPRemoteProxy
            | Self::MCPServerEntry
            | Self::MCPExternalAuthConfig
            | Self::MCPOIDCConfig
            | Self::MCPTelemetryConfig
            | Self::MCPToolConfig
            | Self::VirtualMCPCompositeToolDefinition
            | Self::EmbeddingServer => true,
            Self::ConfigMap
            | Self::Secret
            | Self::ServiceAccount
            | Self::Role
            | Self::RoleBinding
            | Self::Deployment
            | Self::StatefulSet
            | Self::Service
            | Self::PodDisruptionBudget
            | Self::NetworkPolicy
            | Self::Ingress
            | Self::HTTPRoute
            | Self::ServiceMonitor => false,
        }
    }

    /// Returns whether objects of a built-in kind are watched that lack the operator's label: resources refer to them.
    pub(crate) fn is_watched_without_label(self) -> bool {
        matches!(self, Self::ConfigMap | Self::Secret)
    }

    /// Returns the kind as manifests write it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::VirtualMCPServer => "VirtualMCPServer",
            Self::MCPGroup => "MCPGroup",
            Self::MCPServer => "MCPServer",
            Self::MCPRemoteProxy => "MCPRemoteProxy",
            Self::MCPServerEntry => "MCPServerEntry",
            Self::MCPExternalAuthConfig => "MCPExternalAuthConfig",
            Self::MCPOIDCConfig => "MCPOIDCConfig",
            Self::MCPTelemetryConfig => "MCPTelemetryConfig",
            Self::MCPToolConfig => "MCPToolConfig",
            Self::VirtualMCPCompositeToolDefinition => "VirtualMCPCompositeToolDefinition",
            Self::EmbeddingServer => "EmbeddingServer",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::ServiceAccount => "ServiceAccount",
            Self::Role => "Role",
            Self::RoleBinding => "RoleBinding",
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::Service => "Service",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::Ingress => "Ingress",
            Self::HTTPRoute => "HTTPRoute",
            Self::ServiceMonitor => "ServiceMonitor",
        }
    }
}

// === impl ObjectKey ===

impl ObjectKey {
    pub(crate) fn new(kind: Kind, key: Key) -> Self {
        Self { kind, key }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.key)
    }
}
