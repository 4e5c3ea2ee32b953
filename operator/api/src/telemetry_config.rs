//! MCPTelemetryConfig: the destination of traces and metrics.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::SecretRef;

use crate::{
    condition::{conditions, conditions_schema},
    reference::CaBundleRef,
};

/// Destination of traces and metrics.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "vmcp.dev",
    version = "v1beta1",
    kind = "MCPTelemetryConfig",
    plural = "mcptelemetryconfigs",
    shortname = "mcpotel",
    category = "mcp",
    namespaced,
    schema = "disabled",
    status = "MCPTelemetryConfigStatus",
    derive = "PartialEq",
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".spec.openTelemetry.endpoint"),
    printcolumn(
        name = "Valid",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Valid')].status"
    ),
    printcolumn(
        name = "Tracing",
        type_ = "boolean",
        json_path = ".spec.openTelemetry.tracing.enabled"
    ),
    printcolumn(
        name = "Metrics",
        type_ = "boolean",
        json_path = ".spec.openTelemetry.metrics.enabled"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MCPTelemetryConfigSpec {
    /// Export through OTLP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_telemetry: Option<OpenTelemetry>,
    /// Metrics for Prometheus to scrape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<Prometheus>,
}

/// Export of traces and metrics through OTLP.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(
    validation = ("!has(self.headers) || !has(self.sensitiveHeaders) || self.sensitiveHeaders.all(header, !(header.name in self.headers))", "a header must not be in both headers and sensitiveHeaders"),
    validation = ("!has(self.endpoint) || self.endpoint == '' || (has(self.tracing) && has(self.tracing.enabled) && self.tracing.enabled) || (has(self.metrics) && has(self.metrics.enabled) && self.metrics.enabled)", "endpoint only with tracing.enabled or metrics.enabled"),
    validation = ("!has(self.caBundleRef) || !has(self.insecure) || !self.insecure", "caBundleRef only without insecure"),
)]
#[serde(rename_all = "camelCase")]
pub struct OpenTelemetry {
    /// Enables the export.
    #[serde(default)]
    pub enabled: bool,
    /// OTLP endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Uses http instead of https for the endpoint.
    #[serde(default)]
    pub insecure: bool,
    /// Headers of requests to the endpoint, in plain text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub headers: BTreeMap<String, String>,
    /// Headers of requests to the endpoint, from Secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub sensitive_headers: Vec<SensitiveHeader>,
    /// Attributes of the resource for all signals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_attributes: BTreeMap<String, String>,
    /// Export of metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsExport>,
    /// Export of traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<TracingExport>,
    /// Also writes the older attribute names. A later release will change the default to false.
    #[serde(default = "yes")]
    pub use_legacy_attributes: bool,
    /// Certificates to trust for the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_bundle_ref: Option<CaBundleRef>,
}

/// A header with a value from a Secret.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SensitiveHeader {
    /// Name of the header.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// Secret with the value.
    pub secret_key_ref: SecretRef,
}

/// Export of metrics.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricsExport {
    /// Enables the export.
    #[serde(default)]
    pub enabled: bool,
}

/// Export of traces.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TracingExport {
    /// Enables the export.
    #[serde(default)]
    pub enabled: bool,
    /// Share of requests that are traced, 0 to 1.
    #[serde(default = "sampling_rate")]
    #[schemars(regex(pattern = r"^(0(\.\d+)?|1(\.0+)?)$"))]
    pub sampling_rate: String,
}

/// Metrics for Prometheus to scrape.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prometheus {
    /// Serves /metrics on the port of the server.
    #[serde(default)]
    pub enabled: bool,
}

fn yes() -> bool {
    true
}

fn sampling_rate() -> String {
    "0.05".to_owned()
}

/// Observed state of an MCPTelemetryConfig.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MCPTelemetryConfigStatus {
    /// Hash of the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// Generation of the resource that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the destination.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

conditions! {
    /// Condition that tells whether the settings are valid.
    TelemetryConfigValid: "Valid" {
        Valid = True "ValidationSucceeded",
        Invalid = False "ValidationFailed",
    }
}
