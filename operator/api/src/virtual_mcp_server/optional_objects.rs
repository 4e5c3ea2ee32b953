//! Objects that a server has only if its spec asks for them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// PodDisruptionBudget of the pods.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(validation = (
    "has(self.minAvailable) != has(self.maxUnavailable)",
    "exactly one of minAvailable and maxUnavailable is required",
))]
#[serde(rename_all = "camelCase")]
pub struct DisruptionBudget {
    /// Pods that stay available during an eviction, as a number or as a percentage such as 50%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,
    /// Pods that may be unavailable after an eviction, as a number or as a percentage such as 50%.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
}

/// NetworkPolicy of the pods. The replicas of the server always reach each other, and outgoing connections stay open.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkAccess {
    /// Peers that may connect to the port of the server. Empty admits none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub from: Vec<NetworkPeer>,
}

/// Peer of a NetworkPolicy: a block of addresses, or pods by the labels of their namespace and their own.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(validation = (
    "has(self.ipBlock) != (has(self.namespaceSelector) || has(self.podSelector))",
    "either ipBlock, or at least one of namespaceSelector and podSelector is required",
))]
#[serde(rename_all = "camelCase")]
pub struct NetworkPeer {
    /// Block of addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_block: Option<AddressBlock>,
    /// Labels of namespaces. Absent is the namespace of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelQuery>,
    /// Labels of pods. Absent are all pods of the namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelQuery>,
}

/// Block of addresses.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressBlock {
    /// Block as address and prefix length, such as 10.0.0.0/8.
    #[schemars(length(min = 1, max = 64))]
    pub cidr: String,
    /// Blocks within it that are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub except: Vec<String>,
}

/// Query for labels. An empty one matches everything.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelQuery {
    /// Values by name of the label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub match_labels: BTreeMap<String, String>,
    /// Conditions, all of which have to hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Vec<LabelCondition>,
}

/// Condition on a label.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(validation = (
    "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
    "values are required with operator: In and NotIn, and only with them",
))]
#[serde(rename_all = "camelCase")]
pub struct LabelCondition {
    /// Name of the label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// Relation between the label and the values.
    pub operator: LabelOperator,
    /// Values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub values: Vec<String>,
}

/// Relation between a label and values.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum LabelOperator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or is absent.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

/// ServiceMonitor of the Prometheus operator for the metrics of the server, which the telemetry has to enable.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricsScrape {
    /// Interval between two scrapes, such as 30s. Absent is the default of Prometheus.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^([0-9]+(ms|s|m|h|d|w|y))+$"))]
    pub interval: Option<String>,
    /// Labels by which Prometheus selects the ServiceMonitor.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub labels: BTreeMap<String, String>,
}

/// Ingress that leads to the Service of the server.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressRoute {
    /// Public host name.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub host: String,
    /// IngressClass. Absent is the default of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub class_name: Option<String>,
    /// Secret with the certificate of the host. Absent leaves TLS to the ingress controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub tls_secret_name: Option<String>,
    /// Annotations for the ingress controller.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
}

/// HTTPRoute of the Gateway API that leads to the Service of the server.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayRoute {
    /// Public host names.
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub hostnames: Vec<Hostname>,
    /// Gateways that the route attaches to.
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub parent_refs: Vec<GatewayRef>,
}

/// Host name without a wildcard.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Hostname(
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub String,
);

/// Gateway that a route attaches to.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayRef {
    /// Name of the Gateway.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the Gateway. Absent is that of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// Listener of the Gateway. Absent is each one that admits the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub section_name: Option<String>,
}
