//! Groups and their members.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_kube_fixture::{Fault, FaultRule};

use super::support::{Cluster, server};

fn entry(group: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut entry = json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPServerEntry", "metadata": {"name": "e"},
        "spec": {"remoteUrl": "https://e.example/mcp", "transport": "streamable-http", "groupRef": {"name": group}},
    });
    change(&mut entry["spec"]);
    entry
}

fn workload(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "vmcp.dev/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Returns phase of the entry and the reasons of its conditions that are False.
fn state(cluster: &Cluster) -> (String, Vec<String>) {
    let status = cluster.get("MCPServerEntry", "e")["status"].clone();
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let bad = conditions.iter().filter(|condition| condition["status"] == "False");
    let reasons = bad.map(|condition| condition["reason"].as_str().unwrap().to_owned()).collect();
    (status["phase"].as_str().unwrap().to_owned(), reasons)
}

#[tokio::test(start_paused = true)]
async fn group_lists_its_members() {
    let cluster = Cluster::running().await;
    assert_eq!(cluster.get("MCPGroup", "tools")["status"]["phase"], "Ready");
    cluster.put(entry("tools", |_| {}));
    for name in ["two", "one"] {
        let spec = json!({"image": "i", "groupRef": {"name": "tools"}});
        cluster.put(workload("MCPServer", name, spec));
    }
    let spec = json!({"remoteUrl": "https://p.example", "groupRef": {"name": "tools"}});
    cluster.put(workload("MCPRemoteProxy", "p", spec));
    cluster.settle().await;
    let status = cluster.get("MCPGroup", "tools")["status"].clone();
    assert_eq!(status["servers"], json!(["one", "two"]));
    assert_eq!((&status["serverCount"], &status["entryCount"]), (&json!(2), &json!(1)));
    assert_eq!((&status["remoteProxies"], &status["entries"]), (&json!(["p"]), &json!(["e"])));
    assert_eq!(status["conditions"][0]["reason"], "ListMCPServersCheckSucceeded");
    // A member that changes its group leaves the old one.
    cluster.put(entry("others", |_| {}));
    cluster.settle().await;
    assert_eq!(cluster.get("MCPGroup", "tools")["status"]["entryCount"], 0);
    cluster.take_writes();
    cluster.pass(Duration::from_hours(1)).await;
    assert_eq!(cluster.take_writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn entry_names_all_that_is_missing() {
    let cluster = Cluster::running().await;
    let secret = json!({"name": "s", "key": "k"});
    cluster.put(entry("tools", |spec| {
        spec["remoteUrl"] = "https://10.0.0.1/mcp".into();
        spec["externalAuthConfigRef"] = json!({"name": "x"});
        spec["caBundleRef"] = json!({"configMapRef": {"name": "ca", "key": "ca.crt"}});
        spec["headerForward"] =
            json!({"addHeadersFromSecret": [{"headerName": "X-Key", "valueSecretRef": secret}]});
    }));
    cluster.settle().await;
    let (phase, reasons) = state(&cluster);
    assert_eq!(phase, "Failed");
    assert_eq!(
        reasons,
        [
            "CABundleRefNotFound",
            "AuthConfigNotFound",
            "HeaderSecretNotFound",
            "RemoteURLInvalid",
            "ConfigInvalid"
        ]
    );
    cluster.put(entry("tools", |spec| {
        spec["remoteUrl"] = "https://10.0.0.1/mcp".into();
        spec["allowPrivateEndpoint"] = true.into();
        spec["externalAuthConfigRef"] = json!({"name": "x"});
        spec["caBundleRef"] = json!({"configMapRef": {"name": "ca", "key": "ca.crt"}});
        spec["headerForward"] =
            json!({"addHeadersFromSecret": [{"headerName": "X-Key", "valueSecretRef": secret}]});
    }));
    cluster.put(workload("MCPExternalAuthConfig", "x", json!({"type": "unauthenticated"})));
    cluster.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"ca.crt": "x"}}));
    cluster.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "eA=="}}));
    cluster.settle().await;
    assert_eq!(state(&cluster), ("Valid".to_owned(), Vec::new()));
    cluster.delete("Secret", "s").await;
    cluster.settle().await;
    assert_eq!(state(&cluster).1, ["HeaderSecretNotFound", "ConfigInvalid"]);
}

#[tokio::test(start_paused = true)]
async fn entry_waits_for_its_group() {
    let cluster = Cluster::running().await;
    cluster.put(entry("others", |_| {}));
    cluster.settle().await;
    let missing = vec!["GroupRefNotFound".to_owned(), "ConfigInvalid".to_owned()];
    assert_eq!(state(&cluster), ("Failed".to_owned(), missing.clone()));
    cluster.put(workload("MCPGroup", "others", json!({})));
    cluster.settle().await;
    assert_eq!(state(&cluster).0, "Valid");
    // A deleted group concerns its members, and its servers.
    cluster.put(server("a", |spec| spec["groupRef"] = json!({"name": "others"})));
    cluster.settle().await;
    cluster.delete("MCPGroup", "others").await;
    cluster.settle().await;
    assert_eq!(state(&cluster), ("Failed".to_owned(), missing));
    assert_eq!(cluster.reason("a", "GroupRefValidated"), "!GroupRefNotFound");
    assert!(cluster.find("Deployment", "a-vmcp").is_some());
}

#[tokio::test(start_paused = true)]
async fn new_objects_get_one_status_each() {
    let mut cluster = Cluster::new();
    cluster.start().await;
    cluster.take_writes();
    cluster.put_group();
    let mut names = vec!["e".to_owned()];
    names.extend((0..4).map(|index| format!("e{index}")));
    for name in &names {
        let mut entry = entry("tools", |_| {});
        entry["metadata"]["name"] = name.as_str().into();
        cluster.put(entry);
    }
    cluster.put(server("a", |spec| spec["outgoingAuth"] = json!({"source": "inline"})));
    cluster.settle().await;
    let writes = cluster.take_writes();
    let count = |part: &str| writes.iter().filter(|line| line.contains(part)).count();
    assert_eq!(count("patch mcpgroups.vmcp.dev/status"), 1, "{writes:?}");
    assert_eq!(count("patch mcpserverentries.vmcp.dev/status"), names.len(), "{writes:?}");
    assert_eq!(count("patch virtualmcpservers.vmcp.dev/status"), 1, "{writes:?}");
    // Pods start with all entries.
    assert_eq!((count("patch configmaps"), count("patch deployments")), (1, 1), "{writes:?}");
    let events = cluster.events();
    assert_eq!(events.len(), 2, "{events:?}");
    // A later entry leads to no event of its own either.
    let mut late = entry("tools", |_| {});
    late["metadata"]["name"] = "late".into();
    cluster.put(late);
    cluster.settle().await;
    let events = cluster.events();
    assert!(events[2..].iter().all(|line| line.contains("DeploymentUpdated")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn entry_reports_group_without_status() {
    let mut cluster = Cluster::new();
    let rule = FaultRule::new(Fault::Status(500)).on_writes().on_resource("mcpgroups");
    cluster.server.disturb(rule);
    cluster.start().await;
    cluster.put_group();
    cluster.put(entry("tools", |_| {}));
    cluster.settle().await;
    assert_eq!(state(&cluster), ("Pending".to_owned(), vec!["GroupRefNotReady".to_owned()]));
    cluster.server.revive();
    cluster.pass(Duration::from_mins(6)).await;
    assert_eq!(state(&cluster), ("Valid".to_owned(), Vec::new()));
}
