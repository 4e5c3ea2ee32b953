//! Observed state of a VirtualMCPServer.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::conditions_schema;

/// Observed state of a VirtualMCPServer.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMCPServerStatus {
    /// Phase of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Pending"))]
    pub phase: Option<Phase>,
    /// Details of the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// URL of the MCP endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Number of backends that requests reach: those that are ready or unauthenticated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_count: Option<i32>,
    /// Generation of the resource that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Hash of the spec of the MCPOIDCConfig in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc_config_hash: Option<String>,
    /// Hash of the spec of the MCPTelemetryConfig in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry_config_hash: Option<String>,
    /// Conditions of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
    /// The backends of the server and their health.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub discovered_backends: Vec<DiscoveredBackend>,
}

/// Phase of a server.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Phase {
    /// It does not serve yet.
    #[default]
    Pending,
    /// It serves all backends.
    Ready,
    /// It serves, but not all backends.
    Degraded,
    /// It cannot serve.
    Failed,
}

/// A backend and its health.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveredBackend {
    /// Name of the backend.
    pub name: String,
    /// URL of the backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Health of the backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<BackendStatus>,
    /// Kind of credentials for the backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_type: Option<String>,
    /// Name of the MCPExternalAuthConfig with the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_config_ref: Option<String>,
    /// Details of the health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time of the last health check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_health_check: Option<Time>,
    /// Number of failed checks since the backend was healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive_failures: Option<i32>,
    /// State of the circuit breaker. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit_breaker_state: Option<CircuitBreakerState>,
    /// Time of the last change of the circuit breaker's state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuit_last_changed: Option<Time>,
}

/// Health of a backend.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendStatus {
    /// It serves.
    Ready,
    /// It serves slowly, or recovers.
    Degraded,
    /// It does not serve.
    Unavailable,
    /// It rejects a health check without credentials; requests of callers may have some.
    Unauthenticated,
    /// It was not checked yet.
    #[default]
    Unknown,
}

/// State of a circuit breaker.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CircuitBreakerState {
    /// Requests pass.
    Closed,
    /// Requests are rejected.
    Open,
    /// One request probes the backend.
    HalfOpen,
}

// === impl BackendStatus ===

impl BackendStatus {
    /// Returns `true` if requests reach the backend.
    #[must_use]
    pub fn is_routable(self) -> bool {
        match self {
            Self::Ready | Self::Unauthenticated => true,
            Self::Degraded | Self::Unavailable | Self::Unknown => false,
        }
    }
}
