//! MCPToolConfig: selection and overrides of a backend's tools.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::ToolOverride;

use crate::{
    Inline,
    condition::{conditions, conditions_schema},
};

/// Selection and overrides of a backend's tools.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "vmcp.dev",
    version = "v1beta1",
    kind = "MCPToolConfig",
    plural = "mcptoolconfigs",
    shortname = "tc",
    shortname = "toolconfig",
    category = "mcp",
    namespaced,
    schema = "disabled",
    status = "MCPToolConfigStatus",
    derive = "PartialEq",
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Valid')].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MCPToolConfigSpec {
    /// Names of the tools to show, after overrides. Empty shows all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub tools_filter: Vec<String>,
    /// Other names, descriptions and annotations, by the backend's own name of the tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools_override: BTreeMap<String, Inline<ToolOverride>>,
}

/// Observed state of an MCPToolConfig.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MCPToolConfigStatus {
    /// Hash of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// Generation of the resource that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the tool configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

conditions! {
    /// Condition that tells whether the settings are valid.
    ToolConfigValid: "Valid" {
        Valid = True "ValidationSucceeded",
        Invalid = False "ValidationFailed",
    }
}
