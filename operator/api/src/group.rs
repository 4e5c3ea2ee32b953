//! MCPGroup: backends that a server serves together.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::{conditions, conditions_schema};

/// Group of MCP servers, which refer to it by `spec.groupRef`.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "vmcp.dev",
    version = "v1beta1",
    kind = "MCPGroup",
    plural = "mcpgroups",
    shortname = "mcpg",
    shortname = "mcpgroup",
    category = "mcp",
    namespaced,
    schema = "disabled",
    status = "MCPGroupStatus",
    derive = "PartialEq",
    printcolumn(name = "Servers", type_ = "integer", json_path = ".status.serverCount"),
    printcolumn(name = "Proxies", type_ = "integer", json_path = ".status.remoteProxyCount"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Checked",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='MCPServersChecked')].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MCPGroupSpec {
    /// Description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Observed state of an MCPGroup.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MCPGroupStatus {
    /// Phase of the group.
    #[serde(default)]
    pub phase: GroupPhase,
    /// Names of the MCPServer members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub servers: Vec<String>,
    /// Number of the MCPServer members.
    #[serde(default)]
    pub server_count: i32,
    /// Names of the MCPRemoteProxy members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub remote_proxies: Vec<String>,
    /// Number of the MCPRemoteProxy members.
    #[serde(default)]
    pub remote_proxy_count: i32,
    /// Names of the MCPServerEntry members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub entries: Vec<String>,
    /// Number of the MCPServerEntry members.
    #[serde(default)]
    pub entry_count: i32,
    /// Generation of the resource that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// Phase of a group. An empty group is ready.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum GroupPhase {
    /// Members were listed.
    Ready,
    /// Members were not listed yet.
    #[default]
    Pending,
    /// Members could not be listed.
    Failed,
}

conditions! {
    /// Condition that tells whether the members were listed.
    MembersChecked: "MCPServersChecked" {
        Succeeded = True "ListMCPServersCheckSucceeded",
        Failed = False "ListMCPServersCheckFailed",
    }
}
