//! VirtualMCPServer: one MCP endpoint in front of the servers of a group.

mod condition;
mod incoming_auth;
mod optional_objects;
mod outgoing_auth;
mod status;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::{AuthServer, Config, SecretRef};

pub use self::{
    condition::{
        AudienceUnique, AuthConfigured, AuthServerConfigValidated, AuthzUpstreamSelection,
        BackendAuthConfig, BackendsDegraded, BackendsDiscovered, BackendsReady,
        CompositeToolRefsValidated, DefaultAuthConfig, DiscoveredAuthConfig, EmbeddingServerReady,
        GroupRefValidated, IdentitySynthesized, IssuerUnique, MembersIncluded, ObjectsApplied,
        OidcConfigRefValidated, PodTemplateSpecValid, ServerReady, ServerValid, ServiceNameUnique,
        SessionStorageWarning, TelemetryConfigRefValidated,
    },
    incoming_auth::{
        AuthorizationConfigMapRef, AuthzConfig, AuthzSource, IncomingAuth, IncomingAuthType,
        InlineAuthz,
    },
    optional_objects::{
        AddressBlock, DisruptionBudget, GatewayRef, GatewayRoute, Hostname, IngressRoute,
        LabelCondition, LabelOperator, LabelQuery, MetricsScrape, NetworkAccess, NetworkPeer,
    },
    outgoing_auth::{BackendAuth, BackendAuthType, OutgoingAuth, OutgoingAuthSource},
    status::{
        BackendStatus, CircuitBreakerState, DiscoveredBackend, Phase, VirtualMCPServerStatus,
    },
};
use crate::{
    FreeForm, Inline,
    reference::{NameRef, PullSecretRef, TelemetryConfigRef},
};

/// One MCP endpoint in front of the MCP servers of a group.
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "vmcp.dev",
    version = "v1beta1",
    kind = "VirtualMCPServer",
    plural = "virtualmcpservers",
    shortname = "vmcp",
    shortname = "virtualmcp",
    category = "mcp",
    namespaced,
    schema = "disabled",
    status = "VirtualMCPServerStatus",
    derive = "PartialEq",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url"),
    printcolumn(name = "Backends", type_ = "integer", json_path = ".status.backendCount"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    )
)]
#[x_kube(validation = (
    "!has(self.config) || !has(self.config.optimizer) || has(self.embeddingServerRef) || has(self.config.optimizer.embeddingService)",
    "config.optimizer requires embeddingServerRef or config.optimizer.embeddingService",
))]
#[serde(rename_all = "camelCase")]
pub struct VirtualMCPServerSpec {
    /// Embedded authorization server, which issues the tokens of callers. Its issuer is that of
    /// incomingAuth.oidcConfigRef.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_server_config: Option<Inline<AuthServer<SecretRef>>>,
    /// Configuration of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Inline<Config>>,
    /// EmbeddingServer for the optimizer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_server_ref: Option<NameRef>,
    /// MCPGroup of the backends.
    pub group_ref: NameRef,
    /// HTTPRoute of the Gateway API to the Service. Absent creates none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_route: Option<GatewayRoute>,
    /// Secrets with credentials for the image registry. Those of podTemplateSpec are added, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub image_pull_secrets: Vec<PullSecretRef>,
    /// Authentication and authorization of callers. Takes precedence over config.incomingAuth.
    pub incoming_auth: IncomingAuth,
    /// Ingress to the Service. Absent creates none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<IngressRoute>,
    /// NetworkPolicy of the pods. Absent creates none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkAccess>,
    /// Credentials for backends. Takes precedence over config.outgoingAuth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outgoing_auth: Option<OutgoingAuth>,
    /// PodDisruptionBudget of the pods. Absent creates none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<DisruptionBudget>,
    /// Pod template that is merged over the generated one. The container of the server is named vmcp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_spec: Option<FreeForm>,
    /// Number of replicas. Absent leaves it to an autoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Existing service account. Absent creates one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// ServiceMonitor of the Prometheus operator. Absent creates none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_monitor: Option<MetricsScrape>,
    /// Type of the Service.
    #[serde(default)]
    pub service_type: ServiceType,
    /// Affinity of client connections to pods.
    #[serde(default)]
    pub session_affinity: SessionAffinity,
    /// Storage of client sessions that replicas share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_storage: Option<SessionStorage>,
    /// Destination of traces and metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry_config_ref: Option<TelemetryConfigRef>,
}

/// Type of a Service.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ServiceType {
    /// Within the cluster.
    #[default]
    ClusterIP,
    /// On a port of each node.
    NodePort,
    /// Behind a load balancer.
    LoadBalancer,
}

/// Affinity of client connections to pods.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum SessionAffinity {
    /// By client address.
    #[default]
    ClientIP,
    /// No affinity.
    None,
}

/// Storage of client sessions that replicas share.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(validation = ("self.provider != 'redis' || has(self.address)", "address is required with provider: redis"))]
#[serde(rename_all = "camelCase")]
pub struct SessionStorage {
    /// Kind of storage.
    pub provider: SessionStorageProvider,
    /// Address of Redis. Required with provider: redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub address: Option<String>,
    /// Number of the Redis database.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub db: i32,
    /// Prefix of all keys in Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_prefix: Option<String>,
    /// Secret with the password of Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_ref: Option<SecretRef>,
}

/// Kind of session storage.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionStorageProvider {
    /// In each pod.
    Memory,
    /// In Redis.
    Redis,
}
