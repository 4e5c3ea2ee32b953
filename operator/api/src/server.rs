//! MCPServer: an MCP server in a container. Its status has the address that a gateway connects to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    FreeForm,
    condition::conditions_schema,
    reference::{EnvVar, NameRef, OidcConfigRef, ResourceRequirements, TelemetryConfigRef},
    virtual_mcp_server::{SessionAffinity, SessionStorage},
    workload::{AuthServerRef, WorkloadAudit, WorkloadAuthzConfig, WorkloadOverrides},
};

/// MCP server in a container.
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "vmcp.dev",
    version = "v1beta1",
    kind = "MCPServer",
    plural = "mcpservers",
    shortname = "mcpserver",
    category = "mcp",
    namespaced,
    schema = "disabled",
    status = "MCPServerStatus",
    derive = "PartialEq",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MCPServerSpec {
    /// Image of the server.
    #[schemars(length(min = 1))]
    pub image: String,
    /// Transport of the server.
    #[serde(default)]
    pub transport: ServerTransport,
    /// Transport of the proxy, for a server with transport: stdio.
    #[serde(default = "proxy_mode")]
    pub proxy_mode: crate::RemoteTransport,
    /// Port of the proxy.
    #[serde(default = "proxy_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub proxy_port: i32,
    /// Port of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub mcp_port: Option<i32>,
    /// Arguments of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub args: Vec<String>,
    /// Environment variables of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// Secrets in environment variables of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub secrets: Vec<SecretVar>,
    /// Volumes of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub volumes: Vec<Volume>,
    /// Permissions of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_profile: Option<PermissionProfile>,
    /// Compute resources of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Existing service account of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Pod template that is merged over the generated one. The container is named mcp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_spec: Option<FreeForm>,
    /// Annotations, labels and environment of the generated objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_overrides: Option<WorkloadOverrides>,
    /// Group that the server belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_ref: Option<NameRef>,
    /// OpenID provider of the callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc_config_ref: Option<OidcConfigRef>,
    /// MCPExternalAuthConfig with the credentials for the server.
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
    /// Path in front of the endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_prefix: Option<String>,
    /// Trusts the headers of proxies in front of the server.
    #[serde(default)]
    pub trust_proxy_headers: bool,
    /// Affinity of client connections to pods.
    #[serde(default)]
    pub session_affinity: SessionAffinity,
    /// Storage of client sessions that replicas share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_storage: Option<SessionStorage>,
    /// Number of replicas of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Number of replicas of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub backend_replicas: Option<i32>,
}

/// Transport of a server in a container.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerTransport {
    /// Standard input and output.
    #[default]
    Stdio,
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP+SSE of the 2024-11-05 revision.
    Sse,
}

/// A Secret in an environment variable.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretVar {
    /// Name of the Secret.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Key within the Secret.
    #[schemars(length(max = 253))]
    pub key: String,
    /// Name of the variable. Absent is the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_env_name: Option<String>,
}

/// A volume of the node.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Name of the volume.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Path on the node.
    pub host_path: String,
    /// Path in the container.
    pub mount_path: String,
    /// Forbids the server to write.
    #[serde(default)]
    pub read_only: bool,
}

/// Permissions of a server.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionProfile {
    /// Source of the profile.
    #[serde(rename = "type")]
    #[schemars(extend("default" = "builtin"))]
    pub kind: PermissionProfileType,
    /// Name of the profile or of the ConfigMap.
    pub name: String,
    /// Key within the ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Source of a profile.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PermissionProfileType {
    /// Built in.
    #[default]
    Builtin,
    /// A ConfigMap.
    ConfigMap,
}

fn proxy_mode() -> crate::RemoteTransport {
    crate::RemoteTransport::StreamableHttp
}

fn proxy_port() -> i32 {
    8080
}

/// Observed state of an MCPServer.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MCPServerStatus {
    /// Phase of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ServerPhase>,
    /// URL of the MCP endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Details of the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Number of ready replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
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
    /// Conditions of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// Phase of a server in a container.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ServerPhase {
    /// It does not serve yet.
    #[default]
    Pending,
    /// It serves.
    Ready,
    /// It cannot serve.
    Failed,
    /// It is being deleted.
    Terminating,
    /// It has no replicas.
    Stopped,
}
