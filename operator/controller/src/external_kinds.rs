//! Kinds of the Gateway API and of the Prometheus operator, with the fields that the operator writes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Route of a Gateway.
#[derive(Clone, CustomResource, Debug, Deserialize, PartialEq, Serialize)]
#[kube(
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "HTTPRoute",
    plural = "httproutes",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct HTTPRouteSpec {
    /// Hosts that the route serves.
    pub hostnames: Vec<String>,
    /// Gateways.
    pub parent_refs: Vec<ParentRef>,
    /// Rules; one without a match has all paths.
    pub rules: Vec<RouteRule>,
}

/// Gateway of a route.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentRef {
    /// Name of the Gateway.
    pub name: String,
    /// Its namespace, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

/// Rule of a route.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteRule {
    /// Services that serve the requests.
    pub backend_refs: Vec<BackendRef>,
}

/// Service of a rule.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct BackendRef {
    /// Name of the Service.
    pub name: String,
    /// Its port.
    pub port: u16,
}

/// Scrape of the metrics of a Service.
#[derive(Clone, CustomResource, Debug, Deserialize, PartialEq, Serialize)]
#[kube(
    group = "monitoring.coreos.com",
    version = "v1",
    kind = "ServiceMonitor",
    plural = "servicemonitors",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct ServiceMonitorSpec {
    /// Labels of the Service.
    pub selector: LabelSelector,
    /// Ports and paths.
    pub endpoints: Vec<Endpoint>,
}

/// Port and path of metrics.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Endpoint {
    /// Name of the Service's port.
    pub port: String,
    /// Path of the metrics.
    pub path: String,
    /// Interval between two scrapes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
}
