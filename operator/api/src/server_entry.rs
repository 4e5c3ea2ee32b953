//! MCPServerEntry: a remote MCP server that a gateway connects to directly.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::{conditions, conditions_schema},
    reference::{CaBundleRef, HeaderForward, NameRef},
};

/// Remote MCP server that a gateway connects to directly.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "vmcp.dev",
    version = "v1beta1",
    kind = "MCPServerEntry",
    plural = "mcpserverentries",
    shortname = "mcpentry",
    category = "mcp",
    namespaced,
    schema = "disabled",
    status = "MCPServerEntryStatus",
    derive = "PartialEq",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Transport", type_ = "string", json_path = ".spec.transport"),
    printcolumn(name = "Remote URL", type_ = "string", json_path = ".spec.remoteUrl"),
    printcolumn(name = "Group", type_ = "string", json_path = ".spec.groupRef.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MCPServerEntrySpec {
    /// URL of the MCP endpoint.
    #[schemars(regex(pattern = "^https?://"))]
    pub remote_url: String,
    /// Transport of the MCP endpoint.
    pub transport: RemoteTransport,
    /// Group that the server belongs to.
    pub group_ref: NameRef,
    /// Permits a private address or a name within the cluster.
    #[serde(default)]
    pub allow_private_endpoint: bool,
    /// MCPExternalAuthConfig with the credentials for the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_auth_config_ref: Option<NameRef>,
    /// Headers of each request to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_forward: Option<HeaderForward>,
    /// Certificates to trust for the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<CaBundleRef>,
}

/// Observed state of an MCPServerEntry.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MCPServerEntryStatus {
    /// Phase of the entry.
    #[serde(default)]
    pub phase: EntryPhase,
    /// Generation of the resource that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// MCP transport of a remote server.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum RemoteTransport {
    /// HTTP+SSE of the 2024-11-05 revision.
    #[serde(rename = "sse")]
    Sse,
    /// Streamable HTTP.
    #[default]
    #[serde(rename = "streamable-http")]
    StreamableHttp,
}

/// Phase of an entry.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum EntryPhase {
    /// The entry can be used.
    Valid,
    /// The group is not ready, or the entry was not checked yet.
    #[default]
    Pending,
    /// The entry cannot be used.
    Failed,
}

conditions! {
    /// Condition that tells whether the entry can be used.
    EntryValid: "Valid" {
        Valid = True "ConfigValid",
        Invalid = False "ConfigInvalid",
    }
    /// Condition that tells whether the group exists and is ready.
    EntryGroupRef: "GroupRefValidated" {
        Valid = True "GroupRefIsValid",
        NotFound = False "GroupRefNotFound",
        NotReady = False "GroupRefNotReady",
    }
    /// Condition that tells whether the credentials exist.
    EntryExternalAuthConfig: "ExternalAuthConfigValidated" {
        Valid = True "AuthConfigValid",
        NotConfigured = True "AuthConfigNotConfigured",
        NotFound = False "AuthConfigNotFound",
    }
    /// Condition that tells whether the CA bundle exists.
    EntryCaBundleRef: "CABundleRefValidated" {
        Valid = True "CABundleRefValid",
        NotConfigured = True "CABundleRefNotConfigured",
        NotFound = False "CABundleRefNotFound",
    }
    /// Condition that tells whether the URL is permitted.
    EntryRemoteUrl: "RemoteURLValidated" {
        Valid = True "RemoteURLValid",
        Invalid = False "RemoteURLInvalid",
    }
    /// Condition that tells whether the Secrets of headers exist.
    EntryHeaderSecrets: "HeaderSecretRefsValidated" {
        Valid = True "HeaderSecretsValid",
        NotFound = False "HeaderSecretNotFound",
    }
}
