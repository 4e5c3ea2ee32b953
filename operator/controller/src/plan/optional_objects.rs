//! Objects that a server has only if its spec asks for them.

use k8s_openapi::{
    api::{
        networking::v1::{
            HTTPIngressPath, HTTPIngressRuleValue, IPBlock, Ingress, IngressBackend, IngressRule,
            IngressServiceBackend, IngressSpec, IngressTLS, NetworkPolicy,
            NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
            ServiceBackendPort,
        },
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
        util::intstr::IntOrString,
    },
};
use vmcp_api::{
    conversion::Conversion,
    names::{SERVER_PORT, optional_object_name, service_name},
    virtual_mcp_server::{
        AddressBlock, DisruptionBudget, GatewayRef, GatewayRoute, IngressRoute, LabelCondition,
        LabelOperator, LabelQuery, MetricsScrape, NetworkAccess, NetworkPeer,
    },
};

use super::{arguments::PEER_PORT, error::PlanError, metadata::Owner};
use crate::external_kinds::{
    BackendRef, Endpoint, HTTPRoute, HTTPRouteSpec, ParentRef, RouteRule, ServiceMonitor,
    ServiceMonitorSpec,
};

/// Path of the metrics on the port of the server.
const METRICS_PATH: &str = "/metrics";

/// Objects that a server has only if its spec asks for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptionalObjects {
    /// Limit of evictions.
    pub disruption_budget: Option<PodDisruptionBudget>,
    /// Limit of incoming connections.
    pub network_policy: Option<NetworkPolicy>,
    /// Route of an ingress controller.
    pub ingress: Option<Ingress>,
    /// Route of a Gateway.
    pub http_route: Option<HTTPRoute>,
    /// Scrape of the metrics.
    pub service_monitor: Option<ServiceMonitor>,
}

/// Plans the objects that the spec asks for.
///
/// # Errors
///
/// A number of pods that is none, or a scrape of metrics that the server does not serve.
pub(super) fn optional_objects(
    owner: Owner<'_>,
    conversion: &Conversion,
) -> Result<OptionalObjects, PlanError> {
    let spec = &owner.server.spec;
    let budget = spec.pod_disruption_budget.as_ref();
    let budget = budget.map(|budget| disruption_budget(owner, budget));
    let monitor = spec.service_monitor.as_ref();
    let monitor = monitor.map(|scrape| service_monitor(owner, scrape, conversion));
    Ok(OptionalObjects {
        disruption_budget: budget.transpose()?,
        network_policy: spec.network_policy.as_ref().map(|access| network_policy(owner, access)),
        ingress: spec.ingress.as_ref().map(|route| ingress(owner, route)),
        http_route: spec.http_route.as_ref().map(|route| http_route(owner, route)),
        service_monitor: monitor.transpose()?,
    })
}

fn disruption_budget(
    owner: Owner<'_>,
    budget: &DisruptionBudget,
) -> Result<PodDisruptionBudget, PlanError> {
    let DisruptionBudget { min_available, max_unavailable } = budget;
    check_pods("minAvailable", min_available.as_ref())?;
    check_pods("maxUnavailable", max_unavailable.as_ref())?;
    Ok(PodDisruptionBudget {
        metadata: owner.metadata(optional_object_name(owner.name())),
        spec: Some(PodDisruptionBudgetSpec {
            min_available: min_available.clone(),
            max_unavailable: max_unavailable.clone(),
            selector: Some(owner.selector()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    })
}

/// Rejects a number of pods that is neither one nor a percentage.
fn check_pods(field: &str, pods: Option<&IntOrString>) -> Result<(), PlanError> {
    let (is_valid, found) = match pods {
        None => return Ok(()),
        Some(IntOrString::Int(number)) => (*number >= 0, number.to_string()),
        Some(IntOrString::String(text)) => {
            let number = text.strip_suffix('%').and_then(|number| number.parse::<u8>().ok());
            (number.is_some_and(|number| number <= 100), format!("{text:?}"))
        }
    };
    if is_valid {
        return Ok(());
    }
    let message =
        format!("found {found}; allowed: a number of pods, or a percentage such as \"50%\"");
    Err(PlanError::server(&format!("spec.podDisruptionBudget.{field}"), message))
}

fn network_policy(owner: Owner<'_>, access: &NetworkAccess) -> NetworkPolicy {
    let NetworkAccess { from } = access;
    let replicas =
        NetworkPolicyPeer { pod_selector: Some(owner.selector()), ..NetworkPolicyPeer::default() };
    let mut rules = vec![admit(vec![replicas], PEER_PORT)];
    // An empty list of peers would admit all of them.
    if !from.is_empty() {
        rules.push(admit(from.iter().map(peer).collect(), SERVER_PORT));
    }
    NetworkPolicy {
        metadata: owner.metadata(optional_object_name(owner.name())),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(owner.selector()),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(rules),
            ..NetworkPolicySpec::default()
        }),
    }
}

fn peer(peer: &NetworkPeer) -> NetworkPolicyPeer {
    let NetworkPeer { ip_block, namespace_selector, pod_selector } = peer;
    let block = |AddressBlock { cidr, except }: &AddressBlock| IPBlock {
        cidr: cidr.clone(),
        except: (!except.is_empty()).then(|| except.clone()),
    };
    NetworkPolicyPeer {
        ip_block: ip_block.as_ref().map(block),
        namespace_selector: namespace_selector.as_ref().map(selector),
        pod_selector: pod_selector.as_ref().map(selector),
    }
}

fn selector(query: &LabelQuery) -> LabelSelector {
    let LabelQuery { match_labels, match_expressions } = query;
    let expressions = match_expressions.iter().map(|condition| {
        let LabelCondition { key, operator, values } = condition;
        let operator = match operator {
            LabelOperator::In => "In",
            LabelOperator::NotIn => "NotIn",
            LabelOperator::Exists => "Exists",
            LabelOperator::DoesNotExist => "DoesNotExist",
        };
        LabelSelectorRequirement {
            key: key.clone(),
            operator: operator.to_owned(),
            values: (!values.is_empty()).then(|| values.clone()),
        }
    });
    let expressions: Vec<_> = expressions.collect();
    LabelSelector {
        match_labels: (!match_labels.is_empty()).then(|| match_labels.clone()),
        match_expressions: (!expressions.is_empty()).then_some(expressions),
    }
}

/// Returns a rule that admits peers to a port.
fn admit(peers: Vec<NetworkPolicyPeer>, port: u16) -> NetworkPolicyIngressRule {
    let port = NetworkPolicyPort {
        port: Some(IntOrString::Int(port.into())),
        protocol: Some("TCP".to_owned()),
        ..NetworkPolicyPort::default()
    };
    NetworkPolicyIngressRule { from: Some(peers), ports: Some(vec![port]) }
}

fn ingress(owner: Owner<'_>, route: &IngressRoute) -> Ingress {
    let IngressRoute { host, class_name, tls_secret_name, annotations } = route;
    let service = IngressServiceBackend {
        name: service_name(owner.name()),
        port: Some(ServiceBackendPort {
            number: Some(SERVER_PORT.into()),
            ..ServiceBackendPort::default()
        }),
    };
    // All paths: those of metadata documents and of the authorization server are not below the one of MCP.
    let path = HTTPIngressPath {
        backend: IngressBackend { service: Some(service), ..IngressBackend::default() },
        path: Some("/".to_owned()),
        path_type: "Prefix".to_owned(),
    };
    let tls = tls_secret_name.clone().map(|secret_name| {
        vec![IngressTLS { hosts: Some(vec![host.clone()]), secret_name: Some(secret_name) }]
    });
    let mut metadata = owner.metadata(optional_object_name(owner.name()));
    metadata.annotations = (!annotations.is_empty()).then(|| annotations.clone());
    Ingress {
        metadata,
        spec: Some(IngressSpec {
            ingress_class_name: class_name.clone(),
            rules: Some(vec![IngressRule {
                host: Some(host.clone()),
                http: Some(HTTPIngressRuleValue { paths: vec![path] }),
            }]),
            tls,
            ..IngressSpec::default()
        }),
        ..Ingress::default()
    }
}

fn http_route(owner: Owner<'_>, route: &GatewayRoute) -> HTTPRoute {
    let GatewayRoute { hostnames, parent_refs } = route;
    let parents = parent_refs.iter().map(|parent| {
        let GatewayRef { name, namespace, section_name } = parent.clone();
        ParentRef { name, namespace, section_name }
    });
    let backend = BackendRef { name: service_name(owner.name()), port: SERVER_PORT };
    HTTPRoute {
        metadata: owner.metadata(optional_object_name(owner.name())),
        spec: HTTPRouteSpec {
            hostnames: hostnames.iter().map(|host| host.0.clone()).collect(),
            parent_refs: parents.collect(),
            rules: vec![RouteRule { backend_refs: vec![backend] }],
        },
    }
}

fn service_monitor(
    owner: Owner<'_>,
    scrape: &MetricsScrape,
    conversion: &Conversion,
) -> Result<ServiceMonitor, PlanError> {
    let MetricsScrape { interval, labels } = scrape;
    let telemetry = conversion.file.telemetry.as_ref();
    if !telemetry.is_some_and(|telemetry| telemetry.enable_prometheus_metrics_path) {
        let message = "the server does not serve /metrics: set prometheus.enabled of the MCPTelemetryConfig of \
                       telemetryConfigRef, or remove serviceMonitor";
        return Err(PlanError::server("spec.serviceMonitor", message));
    }
    let mut metadata = owner.metadata(optional_object_name(owner.name()));
    // The labels by which the operator finds its objects stay.
    let mut all = labels.clone();
    all.extend(owner.labels());
    metadata.labels = Some(all);
    let endpoint = Endpoint {
        // The headless Service of the replicas has no port of this name.
        port: "http".to_owned(),
        path: METRICS_PATH.to_owned(),
        interval: interval.clone(),
    };
    Ok(ServiceMonitor {
        metadata,
        spec: ServiceMonitorSpec { selector: owner.selector(), endpoints: vec![endpoint] },
    })
}
