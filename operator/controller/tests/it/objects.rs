//! Generated objects: which writes happen, and that no others do.

use std::time::Duration;

use serde_json::json;

use super::support::{Cluster, server};

/// Writes for a new server, in order.
const FIRST_WRITES: [&str; 11] = [
    "patch serviceaccounts default/a-vmcp",
    "patch roles.rbac.authorization.k8s.io default/a-vmcp",
    "patch rolebindings.rbac.authorization.k8s.io default/a-vmcp",
    "create secrets default/a-vmcp-seal",
    "patch secrets default/a-vmcp-secrets",
    "patch configmaps default/a-vmcp-config",
    "patch services default/vmcp-a-peers",
    "patch services default/vmcp-a",
    "patch deployments.apps default/a-vmcp",
    "patch leases.coordination.k8s.io default/a-vmcp-status",
    "patch virtualmcpservers.vmcp.dev/status default/a",
];

#[tokio::test(start_paused = true)]
async fn new_server_gets_its_objects() {
    let cluster = Cluster::running().await;
    assert_eq!(cluster.take_writes(), [""; 0]);
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), FIRST_WRITES);
    let status = cluster.status("a");
    assert_eq!(status["url"], "http://vmcp-a.default.svc.cluster.local:4483/mcp");
    assert_eq!((&status["phase"], &status["observedGeneration"]), (&json!("Pending"), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn unchanged_server_causes_no_writes() {
    let mut cluster = Cluster::with_server().await;
    cluster.make_ready("a", 1);
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), ["patch virtualmcpservers.vmcp.dev/status default/a"]);
    assert_eq!(cluster.status("a")["phase"], "Ready");
    // Periodic reconciles.
    cluster.pass(Duration::from_hours(1)).await;
    assert_eq!(cluster.take_writes(), [""; 0]);
    // A reconcile because of a change that does not matter.
    let mut labeled = cluster.get("VirtualMCPServer", "a");
    labeled["metadata"]["labels"] = json!({"team": "x"});
    cluster.put(labeled);
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), [""; 0]);
    cluster.stop().await;
    cluster.start().await;
    assert_eq!(cluster.take_writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn changed_objects_are_put_back() {
    let cluster = Cluster::with_server().await;
    let cases = [
        ("ConfigMap", "a-vmcp-config", "/data/config.yaml", json!("name: other")),
        ("Deployment", "a-vmcp", "/spec/template/spec/containers/0/image", json!("other")),
        ("Service", "vmcp-a", "/spec/sessionAffinity", json!("None")),
        ("Role", "a-vmcp", "/rules", json!([])),
        ("RoleBinding", "a-vmcp", "/subjects", json!([])),
        ("ServiceAccount", "a-vmcp", "/metadata/labels", json!({})),
        ("Secret", "a-vmcp-secrets", "/metadata/annotations", json!({})),
    ];
    for (kind, name, path, value) in cases {
        let before = cluster.get(kind, name);
        let mut object = before.clone();
        *object.pointer_mut(path).unwrap() = value;
        cluster.put(object);
        cluster.settle().await;
        let after = cluster.get(kind, name);
        assert_eq!(after.pointer(path), before.pointer(path), "{kind}");
        assert_eq!(cluster.take_writes().len(), 1, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_objects_come_back() {
    let cluster = Cluster::with_server().await;
    for (kind, name) in [
        ("ConfigMap", "a-vmcp-config"),
        ("Deployment", "a-vmcp"),
        ("Service", "vmcp-a"),
        ("Service", "vmcp-a-peers"),
        ("Role", "a-vmcp"),
        ("RoleBinding", "a-vmcp"),
        ("ServiceAccount", "a-vmcp"),
        ("Secret", "a-vmcp-secrets"),
        ("Secret", "a-vmcp-seal"),
    ] {
        cluster.delete(kind, name).await;
        cluster.settle().await;
        assert!(cluster.find(kind, name).is_some(), "{kind} {name}");
    }
    // A Lease changes too often to be watched.
    cluster.delete("Lease", "a-vmcp-status").await;
    cluster.pass(Duration::from_mins(15)).await;
    assert!(cluster.find("Lease", "a-vmcp-status").is_some());
}

#[tokio::test(start_paused = true)]
async fn foreign_fields_are_kept() {
    let cluster = Cluster::with_server().await;
    let mut service = cluster.get("Service", "vmcp-a");
    service["metadata"]["annotations"]["cloud.example/balancer"] = "x".into();
    service["metadata"]["labels"]["team"] = "x".into();
    service["spec"]["clusterIP"] = "10.0.0.7".into();
    service["spec"]["ports"][0]["nodePort"] = 30_001.into();
    cluster.put(service);
    let mut deployment = cluster.get("Deployment", "a-vmcp");
    let template = &mut deployment["spec"]["template"];
    template["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = "now".into();
    cluster.put(deployment);
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), [""; 0]);
    // A change of the server that rewrites both.
    cluster.put(server("a", |spec| {
        spec["serviceType"] = "NodePort".into();
        spec["podTemplateSpec"] = json!({"metadata": {"labels": {"team": "y"}}});
    }));
    cluster.settle().await;
    let service = cluster.get("Service", "vmcp-a");
    assert_eq!(service["spec"]["type"], "NodePort");
    assert_eq!(service["metadata"]["annotations"]["cloud.example/balancer"], "x");
    assert_eq!(service["metadata"]["labels"]["team"], "x");
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.7");
    assert_eq!(service["spec"]["ports"][0]["nodePort"], 30_001);
    let template = cluster.get("Deployment", "a-vmcp")["spec"]["template"].clone();
    assert_eq!(template["metadata"]["labels"]["team"], "y");
    let annotations = &template["metadata"]["annotations"];
    assert_eq!(annotations["kubectl.kubernetes.io/restartedAt"], "now");
}

#[tokio::test(start_paused = true)]
async fn autoscaler_takes_replicas_over() {
    let cluster = Cluster::with_server().await;
    assert_eq!(cluster.get("Deployment", "a-vmcp")["spec"]["replicas"], 1);
    cluster.put(server("a", |spec| spec["replicas"] = 4.into()));
    cluster.settle().await;
    assert_eq!(cluster.get("Deployment", "a-vmcp")["spec"]["replicas"], 4);
    cluster.take_writes();
    // Without a value in the spec, the present one stays.
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    assert_eq!(cluster.get("Deployment", "a-vmcp")["spec"]["replicas"], 4);
    let deployment = "patch deployments.apps default/a-vmcp".to_owned();
    let writes = cluster.take_writes();
    assert_eq!(writes.iter().filter(|line| **line == deployment).count(), 2, "{writes:?}");
    let mut scaled = cluster.get("Deployment", "a-vmcp");
    scaled["spec"]["replicas"] = 7.into();
    cluster.put(scaled);
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), [""; 0]);
    assert_eq!(cluster.get("Deployment", "a-vmcp")["spec"]["replicas"], 7);
    // 0 is a value.
    cluster.put(server("a", |spec| spec["replicas"] = 0.into()));
    cluster.settle().await;
    assert_eq!(cluster.get("Deployment", "a-vmcp")["spec"]["replicas"], 0);
    assert_eq!(cluster.status("a")["message"], "it has no replicas");
}

#[tokio::test(start_paused = true)]
async fn existing_account_replaces_generated_one() {
    let cluster = Cluster::with_server().await;
    cluster.put(server("a", |spec| spec["serviceAccount"] = "mine".into()));
    cluster.settle().await;
    for kind in ["ServiceAccount", "Role", "RoleBinding"] {
        assert!(cluster.find(kind, "a-vmcp").is_none(), "{kind}");
    }
    let pod = &cluster.get("Deployment", "a-vmcp")["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "mine");
    cluster.take_writes();
    cluster.pass(Duration::from_hours(1)).await;
    assert_eq!(cluster.take_writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn deleted_server_takes_its_objects_along() {
    let cluster = Cluster::with_server().await;
    cluster.delete("VirtualMCPServer", "a").await;
    cluster.settle().await;
    for kind in ["Deployment", "ServiceAccount", "Role", "RoleBinding"] {
        assert!(cluster.find(kind, "a-vmcp").is_none(), "{kind}");
    }
    assert!(cluster.find("Secret", "a-vmcp-seal").is_none());
    cluster.take_writes();
    cluster.pass(Duration::from_hours(1)).await;
    assert_eq!(cluster.take_writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn servers_of_other_namespaces_are_ignored() {
    let mut cluster = Cluster::new();
    cluster.put_group();
    cluster.put(server("a", |_| {}));
    cluster.start_operator(|operator| operator.namespaces(vec!["kube-system".to_owned()]));
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), [""; 0]);
}
