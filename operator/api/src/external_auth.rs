//! MCPExternalAuthConfig: credentials for MCP servers, or an authorization server for a workload.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::{AuthServer, AwsSts, SecretRef, UpstreamInject};

use crate::{
    Inline,
    condition::{conditions, conditions_schema},
};

/// Credentials for MCP servers, or an authorization server for a workload.
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "vmcp.dev",
    version = "v1beta1",
    kind = "MCPExternalAuthConfig",
    plural = "mcpexternalauthconfigs",
    shortname = "extauth",
    shortname = "mcpextauth",
    category = "mcp",
    namespaced,
    schema = "disabled",
    status = "MCPExternalAuthConfigStatus",
    derive = "PartialEq",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Valid')].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = ("(self.type == 'tokenExchange') == has(self.tokenExchange)", "tokenExchange is required with type: tokenExchange, and only with it"),
    validation = ("(self.type == 'headerInjection') == has(self.headerInjection)", "headerInjection is required with type: headerInjection, and only with it"),
    validation = ("(self.type == 'bearerToken') == has(self.bearerToken)", "bearerToken is required with type: bearerToken, and only with it"),
    validation = ("(self.type == 'embeddedAuthServer') == has(self.embeddedAuthServer)", "embeddedAuthServer is required with type: embeddedAuthServer, and only with it"),
    validation = ("(self.type == 'awsSts') == has(self.awsSts)", "awsSts is required with type: awsSts, and only with it"),
    validation = ("(self.type == 'upstreamInject') == has(self.upstreamInject)", "upstreamInject is required with type: upstreamInject, and only with it"),
)]
#[serde(rename_all = "camelCase")]
pub struct MCPExternalAuthConfigSpec {
    /// Kind of credentials.
    #[serde(rename = "type")]
    pub kind: ExternalAuthType,
    /// A token from an exchange of the caller's token (RFC 8693).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_exchange: Option<TokenExchange>,
    /// A header with a value from a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_injection: Option<HeaderInjection>,
    /// A bearer token from a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer_token: Option<BearerToken>,
    /// Authorization server within the workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedded_auth_server: Option<Inline<AuthServer<SecretRef>>>,
    /// A signature with the credentials of an AWS role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_sts: Option<Inline<AwsSts>>,
    /// The caller's token of an upstream provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_inject: Option<Inline<UpstreamInject>>,
}

/// Kind of credentials.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ExternalAuthType {
    /// A token from an exchange of the caller's token (RFC 8693).
    TokenExchange,
    /// A header.
    HeaderInjection,
    /// A bearer token.
    BearerToken,
    /// No credentials.
    Unauthenticated,
    /// Authorization server within the workload.
    EmbeddedAuthServer,
    /// A signature with the credentials of an AWS role.
    AwsSts,
    /// The caller's token of an upstream provider.
    UpstreamInject,
}

/// A token from an exchange of the caller's token (RFC 8693).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenExchange {
    /// Token endpoint.
    pub token_url: String,
    /// Audience of the exchanged token.
    pub audience: String,
    /// Client identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Client secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret_ref: Option<SecretRef>,
    /// Scopes of the exchanged token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Type of the caller's token: access_token (the default), id_token, jwt, or the URN of one of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = "^(access_token|id_token|jwt|urn:ietf:params:oauth:token-type:(access_token|id_token|jwt))?$"
    ))]
    pub subject_token_type: Option<String>,
    /// Upstream provider whose token is exchanged instead of the caller's. Absent with an embedded authorization server means
    /// its first upstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_provider_name: Option<String>,
    /// Header for the exchanged token. Absent is Authorization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_token_header_name: Option<String>,
}

/// A header with a value from a Secret.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderInjection {
    /// Name of the header.
    #[schemars(length(min = 1, max = 255))]
    pub header_name: String,
    /// Secret with the value.
    pub value_secret_ref: SecretRef,
}

/// A bearer token from a Secret.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BearerToken {
    /// Secret with the token.
    pub token_secret_ref: SecretRef,
}

/// Observed state of an MCPExternalAuthConfig.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MCPExternalAuthConfigStatus {
    /// Hash of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// Generation of the resource that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the credentials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
    /// Workloads that refer to this resource, sorted by kind and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["kind".into(), "name".into()]))]
    pub referencing_workloads: Vec<WorkloadReference>,
}

/// A workload that refers to a resource.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadReference {
    /// Kind of the workload.
    pub kind: WorkloadKind,
    /// Name of the workload.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Kind of a workload that refers to a resource.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
pub enum WorkloadKind {
    /// An MCPRemoteProxy.
    MCPRemoteProxy,
    /// An MCPServer.
    MCPServer,
    /// A VirtualMCPServer.
    VirtualMCPServer,
}

conditions! {
    /// Condition that tells whether the settings are valid.
    ExternalAuthValid: "Valid" {
        Valid = True "ValidationSucceeded",
        Invalid = False "ValidationFailed",
    }
    /// Condition that tells whether the server derives identities, because an upstream provider has no source of them.
    ExternalAuthIdentitySynthesized: "IdentitySynthesized" {
        WithoutUserInfo = True "OAuth2UpstreamWithoutUserInfo",
        WithUserInfo = False "AllUpstreamsHaveUserInfo",
    }
}
