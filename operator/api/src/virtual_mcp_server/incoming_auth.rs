//! Authentication and authorization of callers.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reference::OidcConfigRef;

/// Authentication and authorization of callers.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(validation = ("self.type != 'oidc' || has(self.oidcConfigRef)", "oidcConfigRef is required with type: oidc"))]
#[serde(rename_all = "camelCase")]
pub struct IncomingAuth {
    /// Authentication method.
    #[serde(rename = "type")]
    pub kind: IncomingAuthType,
    /// OpenID provider of the callers. Required with type: oidc.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc_config_ref: Option<OidcConfigRef>,
    /// Authorization of authenticated callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authz_config: Option<AuthzConfig>,
}

/// Authentication method.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum IncomingAuthType {
    /// No authentication.
    Anonymous,
    /// By the tokens of an OpenID provider.
    Oidc,
}

/// Authorization of authenticated callers by Cedar policies.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(
    validation = ("(self.type == 'configMap') == has(self.configMap)", "configMap is required with type: configMap, and only with it"),
    validation = ("(self.type == 'inline') == has(self.inline)", "inline is required with type: inline, and only with it"),
)]
#[serde(rename_all = "camelCase")]
pub struct AuthzConfig {
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
}

/// Source of policies.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AuthzSource {
    /// A ConfigMap.
    #[default]
    ConfigMap,
    /// This resource.
    Inline,
}

/// A key of a ConfigMap with policies.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationConfigMapRef {
    /// Name of the ConfigMap.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Key within the ConfigMap.
    #[serde(default = "authz_key")]
    #[schemars(length(max = 253))]
    pub key: String,
}

fn authz_key() -> String {
    "authz.json".to_owned()
}

/// Cedar policies.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InlineAuthz {
    /// Policies in Cedar's language.
    #[schemars(length(min = 1))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub policies: Vec<String>,
    /// Cedar entities as JSON text, an array.
    #[serde(default = "no_entities")]
    pub entities_json: String,
    /// Upstream provider whose access token has the claims for policies. Absent with an embedded authorization server means
    /// its first upstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"))]
    pub primary_upstream_provider: Option<String>,
}

fn no_entities() -> String {
    "[]".to_owned()
}
