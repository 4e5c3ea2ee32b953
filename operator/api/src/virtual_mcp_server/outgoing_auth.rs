//! Credentials for backends.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reference::NameRef;

/// Credentials for backends.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutgoingAuth {
    /// Source of credentials.
    #[serde(default)]
    pub source: OutgoingAuthSource,
    /// Credentials for backends without an entry in backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<BackendAuth>,
    /// Credentials by backend name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub backends: BTreeMap<String, BackendAuth>,
}

/// Source of credentials.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum OutgoingAuthSource {
    /// The reference of each backend.
    #[default]
    Discovered,
    /// This resource.
    Inline,
}

/// Credentials for one backend.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(validation = (
    "self.type != 'externalAuthConfigRef' || has(self.externalAuthConfigRef)",
    "externalAuthConfigRef is required with type: externalAuthConfigRef",
))]
#[serde(rename_all = "camelCase")]
pub struct BackendAuth {
    /// Source of the credentials.
    #[serde(rename = "type")]
    pub kind: BackendAuthType,
    /// MCPExternalAuthConfig with the credentials. Required with type: externalAuthConfigRef.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_auth_config_ref: Option<NameRef>,
}

/// Source of a backend's credentials.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum BackendAuthType {
    /// The backend's own reference.
    Discovered,
    /// The reference of this entry.
    ExternalAuthConfigRef,
}
