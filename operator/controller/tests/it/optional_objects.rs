//! Objects that a server has only if its spec asks for them.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::{Cluster, server};

/// Kinds that each cluster has.
const BUILT_IN: [&str; 3] = ["PodDisruptionBudget", "NetworkPolicy", "Ingress"];

/// Kinds that other products define.
const DEFINED: [&str; 2] = ["HTTPRoute", "ServiceMonitor"];

/// Defines the kinds of the Gateway API and of the Prometheus operator, without their schemas.
pub(crate) fn define_kinds(cluster: &Cluster) {
    for (group, kind, plural) in [
        ("gateway.networking.k8s.io", "HTTPRoute", "httproutes"),
        ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
    ] {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    }}},
                }],
            },
        });
        cluster.server.put(&definition).unwrap();
    }
}

/// Adds all of the objects to a spec.
pub(crate) fn ask_for_all(spec: &mut Value) {
    spec["podDisruptionBudget"] = json!({"minAvailable": 1});
    spec["networkPolicy"] = json!({"from": [{"podSelector": {}}]});
    spec["ingress"] = json!({"host": "mcp.example.com"});
    spec["httpRoute"] =
        json!({"hostnames": ["route.example.com"], "parentRefs": [{"name": "public"}]});
    spec["serviceMonitor"] = json!({});
    spec["config"] = json!({"telemetry": {"enablePrometheusMetricsPath": true}});
}

/// Returns which of the kinds the server `a` has an object of.
fn found(cluster: &Cluster) -> Vec<&'static str> {
    let kinds = BUILT_IN.into_iter().chain(DEFINED);
    kinds.filter(|kind| cluster.find(kind, "a-vmcp").is_some()).collect()
}

#[tokio::test(start_paused = true)]
async fn objects_come_and_go_with_their_fields() {
    let mut cluster = Cluster::new();
    define_kinds(&cluster);
    cluster.put_group();
    cluster.start().await;
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    assert_eq!(found(&cluster), [""; 0]);
    cluster.put(server("a", ask_for_all));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "ObjectsApplied"), "ObjectsApplied");
    assert_eq!(found(&cluster).len(), 5);
    let arguments = cluster.get("Deployment", "a-vmcp")["spec"]["template"]["spec"]["containers"]
        [0]["args"]
        .clone();
    for host in ["mcp.example.com", "route.example.com"] {
        let expected = format!("--allow-host={host}");
        assert!(arguments.as_array().unwrap().contains(&expected.into()), "{arguments}");
    }
    cluster.take_writes();
    cluster.pass(Duration::from_hours(1)).await;
    assert_eq!(cluster.take_writes(), [""; 0], "nothing is written again");
    cluster.delete("Ingress", "a-vmcp").await;
    cluster.settle().await;
    assert!(cluster.find("Ingress", "a-vmcp").is_some(), "a deleted object is put back");
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    assert_eq!(found(&cluster), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn object_of_others_stays() {
    let cluster = Cluster::with_server().await;
    cluster.put(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a-vmcp"},
        "spec": {"maxUnavailable": 1},
    }));
    cluster.settle().await;
    assert_eq!(cluster.get("PodDisruptionBudget", "a-vmcp")["spec"]["maxUnavailable"], 1);
    cluster.put(server("a", |spec| spec["podDisruptionBudget"] = json!({"minAvailable": 1})));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "ObjectsApplied"), "!ForeignOwner");
    assert_eq!(cluster.get("PodDisruptionBudget", "a-vmcp")["spec"]["maxUnavailable"], 1);
}

#[tokio::test(start_paused = true)]
async fn missing_kind_is_told_and_awaited() {
    let cluster = Cluster::running().await;
    cluster.put(server("a", ask_for_all));
    cluster.settle().await;
    assert_eq!(found(&cluster), BUILT_IN, "the other objects are there");
    let (status, reason, message) = cluster.condition("a", "ObjectsApplied").unwrap();
    assert_eq!((&*status, &*reason), ("False", "ObjectRefused"));
    assert!(message.contains("HTTPRoute"), "{message}");
    define_kinds(&cluster);
    cluster.pass(Duration::from_mins(10)).await;
    assert_eq!(found(&cluster).len(), 5);
    assert_eq!(cluster.reason("a", "ObjectsApplied"), "ObjectsApplied");
    // The operator watches the kinds by now.
    cluster.delete("HTTPRoute", "a-vmcp").await;
    cluster.settle().await;
    assert_eq!(found(&cluster).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn monitor_without_metrics_is_invalid() {
    let cluster = Cluster::running().await;
    cluster.put(server("a", |spec| spec["serviceMonitor"] = json!({})));
    cluster.settle().await;
    let (status, _, message) = cluster.condition("a", "Valid").unwrap();
    assert_eq!(status, "False");
    assert!(message.starts_with("spec.serviceMonitor: "), "{message}");
}
