//! MCPOIDCConfig: an OpenID provider whose tokens servers accept.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::SecretRef;

use crate::{
    condition::{conditions, conditions_schema},
    reference::CaBundleRef,
};

/// OpenID provider whose tokens servers accept.
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "vmcp.dev",
    version = "v1beta1",
    kind = "MCPOIDCConfig",
    plural = "mcpoidcconfigs",
    shortname = "mcpoidc",
    category = "mcp",
    namespaced,
    schema = "disabled",
    status = "MCPOIDCConfigStatus",
    derive = "PartialEq",
    printcolumn(name = "Source", type_ = "string", json_path = ".spec.type"),
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Valid')].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = ("(self.type == 'kubernetesServiceAccount') == has(self.kubernetesServiceAccount)", "kubernetesServiceAccount is required with type: kubernetesServiceAccount, and only with it"),
    validation = ("(self.type == 'inline') == has(self.inline)", "inline is required with type: inline, and only with it"),
)]
#[serde(rename_all = "camelCase")]
pub struct MCPOIDCConfigSpec {
    /// Source of the provider's settings.
    #[serde(rename = "type")]
    pub kind: OidcSource,
    /// Tokens of Kubernetes service accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_service_account: Option<KubernetesServiceAccountOidc>,
    /// Tokens of the provider named here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<InlineOidc>,
}

/// Source of an OpenID provider's settings.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum OidcSource {
    /// The cluster itself.
    KubernetesServiceAccount,
    /// This resource.
    Inline,
}

/// Tokens of Kubernetes service accounts.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesServiceAccountOidc {
    /// Name of the service account that tokens must be of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Namespace of the service account. Absent is that of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Issuer of the cluster.
    #[serde(default = "cluster_issuer")]
    pub issuer: String,
    /// URL of the keys. Absent is discovered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_url: Option<String>,
    /// RFC 7662 endpoint. Absent is discovered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub introspection_url: Option<String>,
    /// Fetches keys with the pod's own token and the CA of the cluster. Absent is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_cluster_auth: Option<bool>,
}

fn cluster_issuer() -> String {
    "https://kubernetes.default.svc".to_owned()
}

/// Tokens of an OpenID provider.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InlineOidc {
    /// The issuer of accepted tokens.
    #[schemars(length(min = 1))]
    pub issuer: String,
    /// URL of the keys. Absent is discovered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_url: Option<String>,
    /// RFC 7662 endpoint for opaque tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub introspection_url: Option<String>,
    /// OAuth client identifier of the server at the issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Client secret, for introspection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret_ref: Option<SecretRef>,
    /// Certificates to trust for the issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<CaBundleRef>,
    /// File with a bearer token for requests for keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_auth_token_path: Option<String>,
    /// Permits keys at private addresses.
    #[serde(default, rename = "jwksAllowPrivateIP")]
    pub jwks_allow_private_ip: bool,
    /// Permits the protected resource at a private address.
    #[serde(default, rename = "protectedResourceAllowPrivateIP")]
    pub protected_resource_allow_private_ip: bool,
    /// Permits an issuer over http. For development.
    #[serde(default, rename = "insecureAllowHTTP")]
    pub insecure_allow_http: bool,
}

/// Observed state of an MCPOIDCConfig.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MCPOIDCConfigStatus {
    /// Hash of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// Generation of the resource that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the provider.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

conditions! {
    /// Condition that tells whether the settings are valid.
    OidcConfigValid: "Valid" {
        Valid = True "ConfigValid",
        Invalid = False "ConfigInvalid",
    }
}
