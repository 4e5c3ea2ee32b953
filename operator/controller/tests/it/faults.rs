//! An API server that fails, and an operator that ends at any time.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_kube_fixture::{Fault, FaultRule};

use super::changes::Change;
use super::support::{Cluster, server};

/// Returns all objects that the operator makes, without what differs between two runs.
fn state(cluster: &Cluster) -> Vec<Value> {
    let resources = [
        ("", "configmaps"),
        ("", "secrets"),
        ("", "services"),
        ("", "serviceaccounts"),
        ("apps", "deployments"),
        ("apps", "statefulsets"),
        ("rbac.authorization.k8s.io", "roles"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("coordination.k8s.io", "leases"),
        ("policy", "poddisruptionbudgets"),
        ("networking.k8s.io", "networkpolicies"),
        ("networking.k8s.io", "ingresses"),
        ("gateway.networking.k8s.io", "httproutes"),
        ("monitoring.coreos.com", "servicemonitors"),
        ("vmcp.dev", "virtualmcpservers"),
        ("vmcp.dev", "mcpgroups"),
        ("vmcp.dev", "mcpserverentries"),
        ("vmcp.dev", "embeddingservers"),
        ("vmcp.dev", "mcpexternalauthconfigs"),
        ("vmcp.dev", "mcpoidcconfigs"),
        ("vmcp.dev", "mcptelemetryconfigs"),
        ("vmcp.dev", "mcptoolconfigs"),
        ("vmcp.dev", "mcpservers"),
        ("vmcp.dev", "virtualmcpcompositetooldefinitions"),
    ];
    let objects = resources.iter().flat_map(|(group, plural)| cluster.server.list(group, plural));
    objects.map(normalized).collect()
}

fn normalized(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in
        ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields"]
    {
        metadata.remove(field);
    }
    for owner in
        metadata.get_mut("ownerReferences").into_iter().filter_map(Value::as_array_mut).flatten()
    {
        owner["uid"] = Value::Null;
    }
    // The hash covers the uid of the owner.
    if let Some(annotations) = metadata.get_mut("annotations") {
        annotations["vmcp.dev/applied-hash"] = Value::Null;
    }
    if let Some(ring) = object["data"].get_mut("ring") {
        *ring = Value::Null;
    }
    for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = Value::Null;
    }
    object
}

async fn undisturbed() -> Vec<Value> {
    state(&Cluster::with_server().await)
}

/// Most writes after a change. A test that meets more of them never reaches the last one.
const MAX_WRITES: usize = 60;

/// Returns the state after a change that nothing disturbs.
async fn state_after(change: Change) -> Vec<Value> {
    let cluster = change.cluster().await;
    change.make(&cluster).await;
    cluster.settle().await;
    assert_ne!(cluster.take_writes(), [""; 0], "{change:?} makes the operator write");
    state(&cluster)
}

/// Returns the data of the keys that replicas share, by the name of the Secret.
fn rings(cluster: &Cluster) -> Vec<(&'static str, Value)> {
    let names = ["a-vmcp-seal", "b-vmcp-seal"];
    let found = names.map(|name| Some((name, cluster.find("Secret", name)?["data"].clone())));
    found.into_iter().flatten().collect()
}

#[tokio::test(start_paused = true)]
async fn operator_killed_between_writes_recovers() {
    for change in Change::ALL {
        let expected = state_after(change).await;
        for count in 0.. {
            assert!(count < MAX_WRITES, "{change:?}: the last write is never reached");
            let mut cluster = change.cluster().await;
            // The fault meets the operator alone, not the change.
            change.make(&cluster).await;
            cluster.server.disturb(FaultRule::new(Fault::Kill).on_writes().after(count));
            cluster.settle().await;
            cluster.kill();
            let is_killed =
                cluster.server.requests().iter().any(|one| one.is_write() && one.status == 0);
            let rings = rings(&cluster);
            cluster.server.revive();
            cluster.start().await;
            assert_eq!(state(&cluster), expected, "{change:?}, after {count} writes");
            for (name, data) in rings {
                let kept = cluster.find("Secret", name).is_none_or(|one| one["data"] == data);
                assert!(kept, "{change:?}, after {count} writes: {name}");
            }
            if !is_killed {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn conflict_on_each_write_is_repeated() {
    for change in Change::ALL {
        let expected = state_after(change).await;
        for count in 0.. {
            assert!(count < MAX_WRITES, "{change:?}: the last write is never reached");
            let cluster = change.cluster().await;
            let rule = FaultRule::new(Fault::Conflict).on_writes().after(count).times(2);
            change.make(&cluster).await;
            cluster.server.disturb(rule);
            cluster.settle().await;
            assert_eq!(state(&cluster), expected, "{change:?}, after {count} writes");
            if cluster.server.requests().iter().all(|one| one.status != 409) {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refusing_and_slow_server_is_awaited() {
    let expected = undisturbed().await;
    let faults = [
        Fault::Refuse,
        Fault::Status(500),
        Fault::Status(429),
        Fault::Delay(Duration::from_secs(40)),
    ];
    for fault in faults {
        let mut cluster = Cluster::new();
        cluster.put_group();
        cluster.put(server("a", |_| {}));
        cluster.server.disturb(FaultRule::new(fault.clone()));
        cluster.start_operator(|operator| operator);
        cluster.pass(Duration::from_mins(5)).await;
        cluster.server.revive();
        cluster.pass(Duration::from_mins(10)).await;
        assert_eq!(state(&cluster), expected, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_change_outlives_an_outage() {
    let faults = [Fault::Refuse, Fault::Status(429), Fault::Delay(Duration::from_secs(40))];
    for change in Change::ALL {
        let expected = state_after(change).await;
        for fault in &faults {
            let cluster = change.cluster().await;
            change.make(&cluster).await;
            cluster.server.disturb(FaultRule::new(fault.clone()));
            cluster.pass(Duration::from_mins(5)).await;
            cluster.server.revive();
            cluster.pass(Duration::from_mins(15)).await;
            assert_eq!(state(&cluster), expected, "{change:?}, {fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_change_outlives_dropped_watches() {
    for change in Change::ALL {
        let expected = state_after(change).await;
        for is_compacted in [false, true] {
            let cluster = change.cluster().await;
            cluster.server.drop_watches();
            change.make(&cluster).await;
            if is_compacted {
                // The changes since the watches ended are gone: 410.
                cluster.server.compact();
            }
            cluster.settle().await;
            assert_eq!(state(&cluster), expected, "{change:?}, compacted: {is_compacted}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn restore_takes_each_change_back() {
    for change in Change::ALL {
        let cluster = change.cluster().await;
        let (snapshot, before) = (cluster.server.snapshot(), state(&cluster));
        change.make(&cluster).await;
        cluster.settle().await;
        // The objects and the revision of an earlier time, as after the restore of a backup.
        cluster.server.restore(&snapshot);
        cluster.settle().await;
        assert_eq!(state(&cluster), before, "{change:?}");
        change.make(&cluster).await;
        cluster.settle().await;
        assert_eq!(state(&cluster), state_after(change).await, "{change:?}, again");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_watches_miss_no_change() {
    let cluster = Cluster::with_server().await;
    for name in ["b", "c"] {
        cluster.server.drop_watches();
        cluster.put(server(name, |_| {}));
        if name == "c" {
            // The changes since the watches ended are gone: 410.
            cluster.server.compact();
        }
        cluster.settle().await;
        assert!(cluster.find("Deployment", &format!("{name}-vmcp")).is_some(), "{name}");
    }
    cluster.server.drop_watches();
    cluster.delete("VirtualMCPServer", "b").await;
    cluster.server.compact();
    cluster.settle().await;
    assert!(cluster.find("Deployment", "b-vmcp").is_none());
    assert!(cluster.find("Deployment", "a-vmcp").is_some());
}

#[tokio::test(start_paused = true)]
async fn restored_server_is_read_again() {
    let cluster = Cluster::with_server().await;
    let snapshot = cluster.server.snapshot();
    let before = state(&cluster);
    for image in ["one", "two", "three"] {
        cluster.put(server("a", |spec| {
            spec["podTemplateSpec"] =
                json!({"spec": {"containers": [{"name": "vmcp", "image": image}]}});
        }));
        cluster.settle().await;
    }
    // The objects and the revision of an earlier time, as after the restore of a backup.
    cluster.server.restore(&snapshot);
    cluster.settle().await;
    assert_eq!(state(&cluster), before);
    cluster.put(server("b", |_| {}));
    cluster.settle().await;
    assert!(cluster.find("Deployment", "b-vmcp").is_some());
}

#[tokio::test(start_paused = true)]
async fn failing_event_changes_nothing_else() {
    let cluster = Cluster::running().await;
    cluster.server.disturb(FaultRule::new(Fault::Status(403)).on_resource("events"));
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    assert_eq!(state(&cluster), undisturbed().await);
}
