//! Objects that exist already and belong to others.

use serde_json::{Value, json};

use super::support::{Cluster, server};

fn config_map(owner: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a-vmcp-config", "ownerReferences": owner}, "data": {"mine": "1"},
    })
}

#[tokio::test(start_paused = true)]
async fn object_of_others_is_not_touched() {
    let cluster = Cluster::running().await;
    cluster.put(config_map(json!([])));
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    assert_eq!(cluster.get("ConfigMap", "a-vmcp-config")["data"], json!({"mine": "1"}));
    let (status, reason, message) = cluster.condition("a", "ObjectsApplied").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ForeignOwner"));
    assert_eq!(
        message,
        "ConfigMap default/a-vmcp-config exists and does not belong to VirtualMCPServer default/a; delete or rename it"
    );
    assert_eq!(cluster.status("a")["phase"], "Failed");
    // No Deployment refers to what is not there.
    assert!(cluster.find("Deployment", "a-vmcp").is_none());
    cluster.delete("ConfigMap", "a-vmcp-config").await;
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "ObjectsApplied"), "ObjectsApplied");
    assert!(cluster.find("Deployment", "a-vmcp").is_some());
}

#[tokio::test(start_paused = true)]
async fn object_of_another_controller_is_named() {
    let cluster = Cluster::running().await;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
    let other = cluster.server.put(&other).unwrap();
    let owner = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": other["metadata"]["uid"], "controller": true,
    }]);
    cluster.put(config_map(owner));
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    let (.., message) = cluster.condition("a", "ObjectsApplied").unwrap();
    assert!(message.contains("belongs to ConfigMap other"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn seal_key_of_others_is_not_used() {
    let cluster = Cluster::running().await;
    cluster.put(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a-vmcp-seal"}, "data": {"ring": "AAAA"},
    }));
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "ObjectsApplied"), "!ForeignOwner");
    assert_eq!(cluster.get("Secret", "a-vmcp-seal")["data"], json!({"ring": "AAAA"}));
}

#[tokio::test(start_paused = true)]
async fn orphaned_objects_are_adopted() {
    let cluster = Cluster::with_server().await;
    let ring = cluster.get("Secret", "a-vmcp-seal")["data"].clone();
    cluster.orphan("VirtualMCPServer", "a").await;
    cluster.settle().await;
    assert!(cluster.find("Deployment", "a-vmcp").is_some());
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "ObjectsApplied"), "ObjectsApplied");
    assert_eq!(cluster.get("Secret", "a-vmcp-seal")["data"], ring);
    let uid = cluster.get("VirtualMCPServer", "a")["metadata"]["uid"].clone();
    let owners = cluster.get("Deployment", "a-vmcp")["metadata"]["ownerReferences"].clone();
    assert_eq!(owners[0]["uid"], uid);
}

#[tokio::test(start_paused = true)]
async fn refused_object_is_reported() {
    let cluster = Cluster::running().await;
    let rule = vmcp_kube_fixture::FaultRule::new(vmcp_kube_fixture::Fault::Status(403));
    cluster.server.disturb(rule.on_writes().on_resource("deployments"));
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "ObjectsApplied"), "!ObjectRefused");
    assert_eq!(cluster.status("a")["phase"], "Failed");
    cluster.server.revive();
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "ObjectsApplied"), "ObjectsApplied");
}
