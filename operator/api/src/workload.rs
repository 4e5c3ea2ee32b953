//! Shapes that MCPServer and MCPRemoteProxy share.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::conditions,
    reference::{EnvVar, MetadataOverrides, PullSecretRef},
    virtual_mcp_server::{AuthorizationConfigMapRef, AuthzSource, InlineAuthz},
};

/// Authorization of authenticated callers of a workload by Cedar policies.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(
    validation = ("(self.type == 'configMap') == has(self.configMap)", "configMap is required with type: configMap, and only with it"),
    validation = ("(self.type == 'inline') == has(self.inline)", "inline is required with type: inline, and only with it"),
)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAuthzConfig {
    /// Source of the policies.
    #[serde(rename = "type")]
    #[schemars(extend("default" = "configMap"))]
    pub kind: AuthzSource,
    /// ConfigMap with the policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map: Option<AuthorizationConfigMapRef>,
    /// The policies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<InlineAuthz>,
    /// Claim with the groups of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub group_claim_name: Option<String>,
    /// Claim with the roles of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub role_claim_name: Option<String>,
    /// Type of the Cedar entities of groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub group_entity_type: Option<String>,
}

/// Reference to the embedded authorization server of a workload.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthServerRef {
    /// Kind of the resource.
    #[serde(default = "external_auth_kind")]
    pub kind: String,
    /// Name of the resource, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

fn external_auth_kind() -> String {
    "MCPExternalAuthConfig".to_owned()
}

/// Audit events of a workload.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAudit {
    /// Enables audit events.
    #[serde(default)]
    pub enabled: bool,
}

/// Annotations, labels and environment of the objects of a workload.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadOverrides {
    /// Of the Deployment of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_deployment: Option<ProxyDeploymentOverrides>,
    /// Of the Service of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_service: Option<MetadataOverrides>,
}

/// Annotations, labels and environment of a Deployment.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyDeploymentOverrides {
    /// Annotations and labels of the Deployment.
    #[serde(flatten)]
    pub metadata: MetadataOverrides,
    /// Further environment variables of the proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// Secrets with credentials for the image registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<PullSecretRef>,
    /// Annotations and labels of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_metadata_overrides: Option<MetadataOverrides>,
}

conditions! {
    /// Condition that tells whether the workload ignores the upstream provider for policies: it supports one upstream
    /// only.
    AuthzPrimaryUpstreamProviderIgnored: "AuthzPrimaryUpstreamProviderIgnored" {
        Ignored = True "PrimaryUpstreamProviderIgnored",
    }
    /// Condition that tells whether the embedded authorization server of the workload is valid.
    AuthServerRefValidated: "AuthServerRefValidated" {
        Valid = True "AuthServerRefValid",
        NotFound = False "AuthServerRefNotFound",
        InvalidKind = False "AuthServerRefInvalidKind",
        InvalidType = False "AuthServerRefInvalidType",
        InvalidConfig = False "AuthServerRefInvalidConfig",
        MultiUpstream = False "MultiUpstreamNotSupported",
    }
}
