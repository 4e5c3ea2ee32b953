//! MCPRemoteProxy: a proxy in front of a remote MCP server. Its status has the address that a gateway connects to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    FreeForm, RemoteTransport,
    condition::conditions_schema,
    reference::{HeaderForward, NameRef, OidcConfigRef, ResourceRequirements, TelemetryConfigRef},
    virtual_mcp_server::{SessionAffinity, SessionStorage},
    workload::{AuthServerRef, WorkloadAudit, WorkloadAuthzConfig, WorkloadOverrides},
};

/// Proxy in front of a remote MCP server.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "vmcp.dev",
    version = "v1beta1",
    kind = "MCPRemoteProxy",
    plural = "mcpremoteproxies",
    shortname = "rp",
    shortname = "mcprp",
    category = "mcp",
    namespaced,
    schema = "disabled",
    status = "MCPRemoteProxyStatus",
    derive = "PartialEq",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Remote URL", type_ = "string", json_path = ".spec.remoteUrl"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MCPRemoteProxySpec {
    /// URL of the remote MCP endpoint.
    #[schemars(regex(pattern = "^https?://"))]
    pub remote_url: String,
    /// Permits a private address or a name within the cluster.
    #[serde(default)]
    pub allow_private_endpoint: bool,
    /// Transport of the remote MCP endpoint.
    #[serde(default)]
    pub transport: RemoteTransport,
    /// Port of the proxy.
    #[serde(default = "proxy_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub proxy_port: i32,
    /// Headers of each request to the remote server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_forward: Option<HeaderForward>,
    /// Group that the proxy belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_ref: Option<NameRef>,
    /// OpenID provider of the callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc_config_ref: Option<OidcConfigRef>,
    /// MCPExternalAuthConfig with the credentials for the remote server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_auth_config_ref: Option<NameRef>,
    /// Embedded authorization server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_server_ref: Option<AuthServerRef>,
    /// Authorization of callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authz_config: Option<WorkloadAuthzConfig>,
    /// Selection and overrides of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_config_ref: Option<NameRef>,
    /// Destination of traces and metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry_config_ref: Option<TelemetryConfigRef>,
    /// Audit events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<WorkloadAudit>,
    /// Compute resources of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Existing service account of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Pod template that is merged over the generated one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_spec: Option<FreeForm>,
    /// Annotations, labels and environment of the generated objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_overrides: Option<WorkloadOverrides>,
    /// Path in front of the endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_prefix: Option<String>,
    /// Trusts the headers of proxies in front of this one.
    #[serde(default)]
    pub trust_proxy_headers: bool,
    /// Affinity of client connections to pods.
    #[serde(default)]
    pub session_affinity: SessionAffinity,
    /// Storage of client sessions that replicas share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_storage: Option<SessionStorage>,
    /// Number of replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
}

fn proxy_port() -> i32 {
    8080
}

/// Observed state of an MCPRemoteProxy.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MCPRemoteProxyStatus {
    /// Phase of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ProxyPhase>,
    /// URL of the proxy within the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// URL of the proxy outside of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_url: Option<String>,
    /// Details of the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Generation of the resource that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Hash of the spec of the MCPExternalAuthConfig with the authorization server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_server_config_hash: Option<String>,
    /// Hash of the policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authz_config_hash: Option<String>,
    /// Hash of the spec of the MCPExternalAuthConfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_auth_config_hash: Option<String>,
    /// Hash of the spec of the MCPOIDCConfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc_config_hash: Option<String>,
    /// Hash of the spec of the MCPTelemetryConfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry_config_hash: Option<String>,
    /// Hash of the spec of the MCPToolConfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_config_hash: Option<String>,
    /// Conditions of the proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// Phase of a proxy.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ProxyPhase {
    /// It does not serve yet.
    #[default]
    Pending,
    /// It serves.
    Ready,
    /// It cannot serve.
    Failed,
    /// It is being deleted.
    Terminating,
}
