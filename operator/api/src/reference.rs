//! Shapes that several kinds share: references to other resources, headers and CA bundles.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::SecretRef;

use crate::condition::conditions;

/// Reference by name to a resource in the same namespace.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameRef {
    /// Name of the resource, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Reference to a Secret with credentials of an image registry.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PullSecretRef {
    /// Name of the Secret. An empty one is ignored.
    #[serde(default)]
    #[schemars(length(max = 253), extend("default" = ""))]
    pub name: String,
}

/// A key of a ConfigMap in the same namespace.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapKeyRef {
    /// Name of the ConfigMap.
    #[serde(default)]
    #[schemars(length(max = 253), extend("default" = ""))]
    pub name: String,
    /// Key within the ConfigMap.
    #[schemars(length(max = 253))]
    pub key: String,
    /// Accepts that the ConfigMap or its key is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// Certificates to trust, from a ConfigMap.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaBundleRef {
    /// ConfigMap with the bundle in PEM, customarily under the key ca.crt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapKeyRef>,
}

/// Headers that are added to each request, the same for all callers.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderForward {
    /// Values by header name, in plain text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub add_plaintext_headers: BTreeMap<String, String>,
    /// Values from Secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["headerName".into()]))]
    pub add_headers_from_secret: Vec<HeaderFromSecret>,
}

/// A header with a value from a Secret.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderFromSecret {
    /// Name of the header.
    #[schemars(length(min = 1, max = 255))]
    pub header_name: String,
    /// Secret with the value.
    pub value_secret_ref: SecretRef,
}

/// Literal environment variable of a container.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvVar {
    /// Name of the variable.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Amounts of CPU and memory.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceList {
    /// CPU, such as 500m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Memory, such as 512Mi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// Compute resources of a container.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequirements {
    /// Upper bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
    /// Amounts that are reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceList>,
}

/// Annotations and labels of a generated object.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataOverrides {
    /// Annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Reference to an MCPOIDCConfig, with what differs between servers.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OidcConfigRef {
    /// Name of the MCPOIDCConfig, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Required audience of a token. Unique to each server, so that a token for one is not accepted by another.
    #[schemars(length(min = 1))]
    pub audience: String,
    /// Public URL in the metadata of the protected resource (RFC 9728). Absent is the URL within the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_url: Option<String>,
    /// Scopes in the metadata of the protected resource. Empty is openid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// Reference to an MCPTelemetryConfig, with what differs between servers.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TelemetryConfigRef {
    /// Name of the MCPTelemetryConfig, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Service name of this server in traces and metrics, unique to it. Absent is the name of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
}

conditions! {
    /// Condition that tells whether a deletion waits for resources that refer to this one.
    DeletionBlocked: "DeletionBlocked" {
        Referenced = True "ReferencedByWorkloads",
    }
    /// Condition of a resource to which no VirtualMCPServer refers. It tells whether the keys of Secrets and ConfigMaps that the
    /// resource names exist.
    KeyRefsValidated: "KeyRefsValidated" {
        Valid = True "KeyRefsValid",
        NotFound = False "KeyRefNotFound",
    }
}
