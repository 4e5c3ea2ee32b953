//! Objects that a server has only if its spec asks for them.

use super::*;

/// Configuration of a server that serves metrics.
pub(super) const WITH_METRICS: &str = "name: tools\nincomingAuth: {type: anonymous}\noutgoingAuth: {source: inline}\ntelemetry: \
                                       {enablePrometheusMetricsPath: true}\n";

/// Returns the fields of a spec with all of the objects.
pub(super) fn full() -> Value {
    json!({
        "podDisruptionBudget": {"maxUnavailable": "50%"},
        "networkPolicy": {"from": [
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "agents"}},
                "podSelector": {
                    "matchLabels": {"tier": "front"},
                    "matchExpressions": [{"key": "app", "operator": "In", "values": ["agent"]}],
                },
            },
        ]},
        "ingress": {
            "host": "mcp.example.com", "className": "nginx", "tlsSecretName": "mcp-tls",
            "annotations": {"cert-manager.io/cluster-issuer": "letsencrypt"},
        },
        "httpRoute": {
            "hostnames": ["mcp.example.com"],
            "parentRefs": [{"name": "public", "namespace": "gateways", "sectionName": "https"}],
        },
        "serviceMonitor": {"interval": "30s", "labels": {"release": "prometheus"}},
    })
}

fn planned(spec: Value) -> Result<Plan, PlanError> {
    plan(&server("tools", spec), &conversion(WITH_METRICS), &settings())
}

#[test]
fn no_field_means_no_object() {
    assert_eq!(planned(json!({})).unwrap().optional.into_objects().count(), 0);
}

#[test]
fn each_field_changes_the_objects() {
    let before = planned(full()).unwrap();
    let mut found = Vec::new();
    leaves(&full(), "", &mut found);
    assert!(found.len() >= 18, "{found:?}");
    for pointer in &found {
        let mut changed = full();
        let value = changed.pointer_mut(pointer).unwrap();
        let text = value.as_str().unwrap();
        *value = match text {
            "In" => "NotIn".into(),
            "50%" => 1.into(),
            _ => format!("1{text}").into(),
        };
        assert_ne!(planned(changed).unwrap(), before, "{pointer}");
    }
    let budget = json!({"podDisruptionBudget": {"minAvailable": 1}});
    let budget = planned(budget).unwrap().optional.disruption_budget.unwrap();
    let minimum = budget.spec.unwrap().min_available.unwrap();
    assert_eq!(serde_json::to_value(minimum).unwrap(), json!(1));
}

#[test]
fn policy_without_peers_admits_only_replicas() {
    let plan = planned(json!({"networkPolicy": {}})).unwrap();
    let policy = serde_json::to_value(plan.optional.network_policy.unwrap()).unwrap();
    let rules = policy["spec"]["ingress"].as_array().unwrap();
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0]["ports"][0]["port"], 4485);
    assert_eq!(rules[0]["from"][0]["podSelector"], policy["spec"]["podSelector"]);
}

#[test]
fn monitor_keeps_labels_of_operator() {
    let labels = json!({"app.kubernetes.io/managed-by": "me", "team": "a"});
    let plan = planned(json!({"serviceMonitor": {"labels": labels}})).unwrap();
    let labels = plan.optional.service_monitor.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["app.kubernetes.io/managed-by"], "vmcp-operator");
    assert_eq!(labels["team"], "a");
}

#[test]
fn errors_of_optional_objects_name_the_field() {
    for (spec, path, configuration) in [
        (json!({"serviceMonitor": {}}), "spec.serviceMonitor", CONFIGURATION),
        (
            json!({"podDisruptionBudget": {"minAvailable": -1}}),
            "spec.podDisruptionBudget.minAvailable",
            WITH_METRICS,
        ),
        (
            json!({"podDisruptionBudget": {"maxUnavailable": "half"}}),
            "spec.podDisruptionBudget.maxUnavailable",
            WITH_METRICS,
        ),
        (
            json!({"podDisruptionBudget": {"maxUnavailable": "101%"}}),
            "spec.podDisruptionBudget.maxUnavailable",
            WITH_METRICS,
        ),
    ] {
        let planned = plan(&server("tools", spec.clone()), &conversion(configuration), &settings());
        assert_eq!(planned.unwrap_err().path, path, "{spec}");
    }
}
