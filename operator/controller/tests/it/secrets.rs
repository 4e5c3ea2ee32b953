//! Secrets and ConfigMaps that a server refers to, and the copies of them.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::{Cluster, server};

fn secret(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data})
}

/// Returns an entry with credentials, and what it refers to but the Secret.
fn put_entry(cluster: &Cluster) {
    cluster.put(json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPExternalAuthConfig", "metadata": {"name": "key"},
        "spec": {"type": "headerInjection", "headerInjection": {"headerName": "X-Key", "valueSecretRef": {"name": "credentials", "key": "token"}}},
    }));
    cluster.put(json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPServerEntry", "metadata": {"name": "weather"},
        "spec": {
            "remoteUrl": "https://weather.example/mcp", "transport": "streamable-http", "groupRef": {"name": "tools"},
            "externalAuthConfigRef": {"name": "key"},
        },
    }));
}

fn inline(name: &str) -> Value {
    server(name, |spec| {
        spec["outgoingAuth"] = json!({"source": "inline", "default": {"type": "discovered"}});
    })
}

fn copies(cluster: &Cluster) -> Vec<(String, String)> {
    let data = cluster.get("Secret", "a-vmcp-secrets")["data"].clone();
    let entries = data.as_object().cloned().unwrap_or_default();
    entries.into_iter().map(|(name, value)| (name, value.as_str().unwrap().to_owned())).collect()
}

/// Returns the annotations of the pod template, a change of which replaces the pods.
fn template(cluster: &Cluster) -> Value {
    cluster.get("Deployment", "a-vmcp")["spec"]["template"].clone()
}

#[tokio::test(start_paused = true)]
async fn missing_secret_leaves_backend_out() {
    let cluster = Cluster::running().await;
    put_entry(&cluster);
    cluster.put(inline("a"));
    cluster.settle().await;
    cluster.make_ready("a", 1);
    cluster.settle().await;
    let (status, _, message) = cluster.condition("a", "MembersIncluded").unwrap();
    assert_eq!(status, "False");
    assert!(message.starts_with("MCPServerEntry weather: SecretPending: "), "{message}");
    assert_eq!(cluster.status("a")["phase"], "Degraded");
    let events = cluster.events();
    let pending = events.iter().filter(|line| line.starts_with("Warning SecretPending")).count();
    assert_eq!(pending, 1, "{events:?}");

    cluster.put(secret("credentials", json!({"token": "c2VjcmV0"})));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "MembersIncluded"), "AllMembersIncluded");
    assert_eq!(copies(&cluster).len(), 1);
    assert_eq!(copies(&cluster)[0].1, "c2VjcmV0");
    assert_eq!(cluster.status("a")["phase"], "Ready");
}

#[tokio::test(start_paused = true)]
async fn empty_and_wrong_keys_count_as_missing() {
    for data in [json!({"token": ""}), json!({"other": "c2VjcmV0"}), json!({})] {
        let cluster = Cluster::running().await;
        put_entry(&cluster);
        cluster.put(secret("credentials", data));
        cluster.put(inline("a"));
        cluster.settle().await;
        assert_eq!(cluster.reason("a", "MembersIncluded"), "!MembersLeftOut");
        assert_eq!(copies(&cluster), []);
    }
}

#[tokio::test(start_paused = true)]
async fn rotated_secret_changes_its_copy_alone() {
    let cluster = Cluster::running().await;
    put_entry(&cluster);
    cluster.put(secret("credentials", json!({"token": "b25l"})));
    cluster.put(inline("a"));
    cluster.settle().await;
    let before = template(&cluster);
    cluster.take_writes();
    cluster.put(secret("credentials", json!({"token": "dHdv", "unused": "eA=="})));
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), ["patch secrets default/a-vmcp-secrets"]);
    assert_eq!(copies(&cluster)[0].1, "dHdv");
    assert_eq!(template(&cluster), before);
    // A Secret that goes leaves the backend out again, and its value goes.
    cluster.delete("Secret", "credentials").await;
    cluster.settle().await;
    assert_eq!(copies(&cluster), []);
    assert_eq!(cluster.reason("a", "MembersIncluded"), "!MembersLeftOut");
}

#[tokio::test(start_paused = true)]
async fn unrelated_secret_is_not_read() {
    let cluster = Cluster::with_server().await;
    cluster.put(secret("other", json!({"token": "b25l"})));
    cluster.settle().await;
    assert_eq!(cluster.server.requests(), []);
}

#[tokio::test(start_paused = true)]
async fn values_appear_nowhere_else() {
    let cluster = Cluster::running().await;
    put_entry(&cluster);
    // "s3cr3t-value"
    cluster.put(secret("credentials", json!({"token": "czNjcjN0LXZhbHVl"})));
    cluster.put(inline("a"));
    cluster.settle().await;
    for (group, plural) in [
        ("", "configmaps"),
        ("apps", "deployments"),
        ("vmcp.dev", "virtualmcpservers"),
        ("events.k8s.io", "events"),
    ] {
        for object in cluster.server.list(group, plural) {
            let text = object.to_string();
            assert!(!text.contains("s3cr3t") && !text.contains("czNjcjN0"), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn copies_larger_than_secret_are_refused() {
    let cluster = Cluster::running().await;
    put_entry(&cluster);
    // Two MiB of zeros, which only the fixture stores.
    let large = "AAAA".repeat(700_000);
    cluster.put(secret("credentials", json!({"token": large})));
    cluster.put(inline("a"));
    cluster.settle().await;
    let (_, reason, message) = cluster.condition("a", "ObjectsApplied").unwrap();
    assert_eq!(reason, "ObjectRefused");
    assert!(message.contains("2100000 bytes, more than the 1048576 of a Secret"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn seal_key_is_created_once() {
    let mut cluster = Cluster::with_server().await;
    let ring = cluster.get("Secret", "a-vmcp-seal")["data"]["ring"].clone();
    // 64 hexadecimal digits in Base64.
    assert_eq!(ring.as_str().unwrap().len(), 88);
    cluster.put(server("a", |spec| spec["replicas"] = 3.into()));
    cluster.stop().await;
    cluster.start().await;
    cluster.pass(Duration::from_hours(1)).await;
    assert_eq!(cluster.get("Secret", "a-vmcp-seal")["data"]["ring"], ring);
    // A key that the user rotates stays.
    let mut rotated = cluster.get("Secret", "a-vmcp-seal");
    rotated["data"]["ring-2"] = "YQ==".into();
    cluster.put(rotated);
    cluster.settle().await;
    assert_eq!(cluster.get("Secret", "a-vmcp-seal")["data"]["ring-2"], "YQ==");
}

#[tokio::test(start_paused = true)]
async fn seal_secret_without_key_is_reported() {
    let cluster = Cluster::with_server().await;
    let mut emptied = cluster.get("Secret", "a-vmcp-seal");
    emptied["data"] = json!({});
    cluster.put(emptied);
    cluster.settle().await;
    let (_, reason, message) = cluster.condition("a", "ObjectsApplied").unwrap();
    assert_eq!(reason, "ObjectRefused");
    assert!(message.contains("it has no key ring"), "{message}");
}
