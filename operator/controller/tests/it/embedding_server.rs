//! Embedding servers: their objects, their status, and the servers that wait for them.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_kube_fixture::{Fault, FaultRule};

use super::support::{Cluster, server};

fn embedding(spec: Value) -> Value {
    json!({"apiVersion": "vmcp.dev/v1beta1", "kind": "EmbeddingServer", "metadata": {"name": "embed"}, "spec": spec})
}

/// Creates a cluster with an operator and an embedding server.
async fn with_embedding(spec: Value) -> Cluster {
    let cluster = Cluster::running().await;
    cluster.put(embedding(spec));
    cluster.settle().await;
    cluster
}

/// Sets the number of pods and of ready pods, as the controllers of Kubernetes do.
async fn set_replicas(cluster: &Cluster, replicas: i32, ready: i32) {
    let mut set = cluster.get("StatefulSet", "embed-embedding");
    set["status"] = json!({"replicas": replicas, "readyReplicas": ready});
    cluster.put_status(&set);
    cluster.settle().await;
}

fn status(cluster: &Cluster) -> Value {
    cluster.get("EmbeddingServer", "embed")["status"].clone()
}

fn phase(cluster: &Cluster) -> String {
    status(cluster)["phase"].as_str().unwrap().to_owned()
}

/// Returns the reasons of all conditions, with `!` in front if the status is False.
fn reasons(cluster: &Cluster) -> Vec<String> {
    let status = status(cluster);
    let conditions = status["conditions"].as_array().unwrap().iter();
    let line = |condition: &Value| {
        let mark = if condition["status"] == "False" { "!" } else { "" };
        format!("{mark}{}", condition["reason"].as_str().unwrap())
    };
    conditions.map(line).collect()
}

/// Returns a server with tool search.
fn searching() -> Value {
    server("a", |spec| spec["embeddingServerRef"] = json!({"name": "embed"}))
}

#[tokio::test(start_paused = true)]
async fn new_server_gets_objects_once() {
    let cluster = Cluster::running().await;
    cluster.put(embedding(json!({})));
    cluster.settle().await;
    assert_eq!(
        cluster.take_writes(),
        [
            "patch services default/embedding-embed",
            "patch statefulsets.apps default/embed-embedding",
            "patch embeddingservers.vmcp.dev/status default/embed",
        ]
    );
    let set = cluster.get("StatefulSet", "embed-embedding");
    assert_eq!(set["metadata"]["ownerReferences"][0]["name"], "embed");
    cluster.pass(Duration::from_hours(1)).await;
    assert_eq!(cluster.take_writes(), [""; 0]);
    let events = cluster.events();
    assert!(events.iter().any(|line| line.starts_with("Normal StatefulSetCreated")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn restarted_operator_writes_nothing() {
    let spec = json!({"modelCache": {}, "podTemplateSpec": {"metadata": {"labels": {"a": "b"}}}});
    let mut cluster = with_embedding(spec).await;
    cluster.take_writes();
    cluster.stop().await;
    cluster.start().await;
    assert_eq!(cluster.take_writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn replicas_decide_phase() {
    let cluster = with_embedding(json!({"replicas": 2})).await;
    assert_eq!(phase(&cluster), "Pending");
    let cases = [(1, 0, "Downloading"), (2, 1, "Ready"), (2, 2, "Ready"), (2, 0, "Downloading")];
    for (replicas, ready, expected) in cases {
        set_replicas(&cluster, replicas, ready).await;
        assert_eq!(phase(&cluster), expected, "{replicas} {ready}");
        assert_eq!(status(&cluster)["readyReplicas"], ready);
    }
    assert_eq!(
        reasons(&cluster),
        ["ObjectsApplied", "!StatefulSetNotReady", "ValidationSucceeded"]
    );
}

#[tokio::test(start_paused = true)]
async fn url_follows_port() {
    let cluster = with_embedding(json!({})).await;
    let url = "http://embedding-embed.default.svc.cluster.local";
    assert_eq!(status(&cluster)["url"], format!("{url}:8080"));
    cluster.put(embedding(json!({"port": 9000})));
    cluster.settle().await;
    assert_eq!(status(&cluster)["url"], format!("{url}:9000"));
    assert_eq!(status(&cluster)["observedGeneration"], 2);
    let service = cluster.get("Service", "embedding-embed");
    assert_eq!(service["spec"]["ports"][0]["port"], 9000);
}

#[tokio::test(start_paused = true)]
async fn missing_token_is_named() {
    let spec = || json!({"hfTokenSecretRef": {"name": "hub", "key": "token"}});
    let cluster = with_embedding(spec()).await;
    set_replicas(&cluster, 1, 0).await;
    let message = "spec.hfTokenSecretRef: key token of Secret hub does not exist, or is empty";
    assert_eq!(
        (phase(&cluster).as_str(), &status(&cluster)["message"]),
        ("Pending", &json!(message))
    );
    assert!(reasons(&cluster).contains(&"!TokenSecretNotFound".to_owned()));
    let secret = |data: Value| {
        cluster.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub"}, "data": data}));
    };
    for wrong in [json!({"token": ""}), json!({"other": "eA=="})] {
        secret(wrong);
        cluster.settle().await;
        assert_eq!(phase(&cluster), "Pending");
    }
    secret(json!({"token": "eA=="}));
    cluster.settle().await;
    assert_eq!(phase(&cluster), "Downloading");
    assert!(reasons(&cluster).contains(&"TokenSecretValid".to_owned()));
    // The value is nowhere but in the Secret.
    assert!(!cluster.get("StatefulSet", "embed-embedding").to_string().contains("eA=="));
}

#[tokio::test(start_paused = true)]
async fn invalid_pod_template_keeps_replicas() {
    let cluster = with_embedding(json!({})).await;
    set_replicas(&cluster, 1, 1).await;
    let before = cluster.get("StatefulSet", "embed-embedding");
    cluster.put(embedding(json!({"port": 1, "podTemplateSpec": {"spec": {"containerz": []}}})));
    cluster.settle().await;
    assert_eq!(phase(&cluster), "Ready");
    let message = status(&cluster)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("spec.podTemplateSpec.spec.containerz"), "{message}");
    assert!(reasons(&cluster).contains(&"!InvalidPodTemplateSpec".to_owned()));
    assert_eq!(cluster.get("StatefulSet", "embed-embedding"), before);
    set_replicas(&cluster, 1, 0).await;
    assert_eq!(phase(&cluster), "Failed");
    cluster.put(embedding(json!({"podTemplateSpec": {"spec": {"nodeSelector": {"a": "b"}}}})));
    cluster.settle().await;
    assert_eq!(phase(&cluster), "Downloading");
    assert!(reasons(&cluster).contains(&"PodTemplateSpecValid".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn foreign_service_is_left_alone() {
    let cluster = Cluster::running().await;
    let foreign = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "embedding-embed"},
        "spec": {"ports": [{"port": 1}]},
    });
    cluster.put(foreign);
    cluster.put(embedding(json!({})));
    cluster.settle().await;
    assert_eq!(phase(&cluster), "Failed");
    assert!(reasons(&cluster).contains(&"!ForeignOwner".to_owned()));
    assert_eq!(cluster.get("Service", "embedding-embed")["spec"]["ports"][0]["port"], 1);
    cluster.delete("Service", "embedding-embed").await;
    cluster.settle().await;
    assert_eq!(phase(&cluster), "Pending");
}

#[tokio::test(start_paused = true)]
async fn changed_objects_are_put_back() {
    let cluster = with_embedding(json!({})).await;
    let mut set = cluster.get("StatefulSet", "embed-embedding");
    set["spec"]["template"]["spec"]["containers"][0]["image"] = "other".into();
    set["metadata"]["annotations"]["team"] = "search".into();
    cluster.put(set);
    cluster.delete("Service", "embedding-embed").await;
    cluster.settle().await;
    let set = cluster.get("StatefulSet", "embed-embedding");
    let image = &set["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "ghcr.io/huggingface/text-embeddings-inference:cpu-latest");
    assert_eq!(set["metadata"]["annotations"]["team"], "search");
    assert!(cluster.find("Service", "embedding-embed").is_some());
}

#[tokio::test(start_paused = true)]
async fn volume_claims_cannot_change() {
    let cluster = with_embedding(json!({"modelCache": {"size": "5Gi"}})).await;
    let error = cluster.server.put(&embedding(json!({"modelCache": {"size": "6Gi"}}))).unwrap_err();
    assert!(error.to_string().contains("modelCache cannot change"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn server_waits_for_its_embedding_server() {
    let cluster = Cluster::running().await;
    cluster.put(searching());
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "EmbeddingServerReady"), "!EmbeddingServerNotFound");
    assert_eq!(cluster.status("a")["phase"], "Failed");
    cluster.put(embedding(json!({})));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "EmbeddingServerReady"), "!EmbeddingServerNotReady");
    assert_eq!(cluster.status("a")["phase"], "Pending");
    assert!(cluster.find("Deployment", "a-vmcp").is_none());
    set_replicas(&cluster, 1, 1).await;
    assert_eq!(cluster.reason("a", "EmbeddingServerReady"), "EmbeddingServerReady");
    let config = cluster.get("ConfigMap", "a-vmcp-config")["data"]["config.yaml"].to_string();
    assert!(config.contains("http://embedding-embed.default.svc.cluster.local:8080"), "{config}");
    cluster.delete("EmbeddingServer", "embed").await;
    cluster.settle().await;
    assert!(cluster.find("StatefulSet", "embed-embedding").is_none());
    assert_eq!(cluster.reason("a", "EmbeddingServerReady"), "!EmbeddingServerNotFound");
}

#[tokio::test(start_paused = true)]
async fn deletion_is_told_to_servers() {
    let cluster = Cluster::running().await;
    let mut object = embedding(json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.put(object);
    cluster.put(searching());
    cluster.settle().await;
    set_replicas(&cluster, 1, 1).await;
    cluster.delete("EmbeddingServer", "embed").await;
    cluster.settle().await;
    assert_eq!(phase(&cluster), "Terminating");
    let (_, _, message) = cluster.condition("a", "EmbeddingServerReady").unwrap();
    assert!(message.contains("the phase of EmbeddingServer embed is Terminating"), "{message}");
    cluster.take_writes();
    cluster.pass(Duration::from_hours(1)).await;
    assert_eq!(cluster.take_writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn failed_write_is_repeated() {
    let cluster = Cluster::running().await;
    let rule = FaultRule::new(Fault::Status(500)).on_writes().on_resource("statefulsets");
    cluster.server.disturb(rule);
    cluster.put(embedding(json!({})));
    cluster.settle().await;
    assert!(cluster.find("StatefulSet", "embed-embedding").is_none());
    cluster.server.revive();
    cluster.pass(Duration::from_mins(10)).await;
    assert!(cluster.find("StatefulSet", "embed-embedding").is_some());
}
