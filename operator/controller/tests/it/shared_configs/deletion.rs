//! A deletion waits for the resources that refer to the configuration.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_kube_fixture::{Fault, FaultRule};

use super::{KINDS, config, count_events, entry, virtual_server, workload};
use crate::support::{Cluster, resource_of};

/// Returns an object of each kind that can refer to a configuration of a kind.
fn referrers(kind: &str) -> Vec<Value> {
    let mut referrers = vec![
        virtual_server(kind, "r", "c"),
        workload("MCPServer", kind, "r", "c"),
        workload("MCPRemoteProxy", kind, "r", "c"),
    ];
    if kind == "MCPExternalAuthConfig" {
        referrers.push(entry("r", "c"));
        let spec = json!({"image": "i", "authServerRef": {"name": "c"}});
        referrers.push(resource_of("MCPServer", "r", spec));
    }
    referrers
}

#[tokio::test(start_paused = true)]
async fn unused_config_goes_at_once() {
    for (kind, plural) in KINDS {
        let cluster = Cluster::running().await;
        cluster.put(config(kind, "c", "one"));
        cluster.settle().await;
        cluster.take_writes();
        cluster.delete(kind, "c").await;
        cluster.pass(Duration::from_secs(1)).await;
        let line = |verb: &str| format!("{verb} {plural}.vmcp.dev default/c");
        assert_eq!(cluster.take_writes(), [line("delete"), line("patch")]);
        assert!(cluster.find(kind, "c").is_none(), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_referrer_blocks_deletion() {
    for (kind, plural) in KINDS {
        for referrer in referrers(kind) {
            let mut cluster = Cluster::running().await;
            cluster.put(config(kind, "c", "one"));
            cluster.put(referrer.clone());
            cluster.settle().await;
            cluster.take_writes();
            cluster.delete(kind, "c").await;
            cluster.settle().await;
            let line = |verb: &str, part: &str| format!("{verb} {plural}.vmcp.dev{part} default/c");
            assert_eq!(cluster.take_writes(), [line("delete", ""), line("patch", "/status")]);
            let referrer_kind = referrer["kind"].as_str().unwrap();
            let (status, reason, message) =
                cluster.condition_of(kind, "c", "DeletionBlocked").unwrap();
            assert_eq!((status.as_str(), reason.as_str()), ("True", "ReferencedByWorkloads"));
            assert!(message.contains(&format!("{referrer_kind}/r")), "{message}");
            // Neither retries nor a restart repeat the event or the write.
            cluster.pass(Duration::from_mins(30)).await;
            cluster.stop().await;
            cluster.start().await;
            assert_eq!(cluster.take_writes(), [""; 0]);
            assert_eq!(count_events(&cluster, "DeletionBlocked"), 1, "{:?}", cluster.events());
            // The watch tells of the last reference, sooner than any retry.
            cluster.delete(referrer_kind, "r").await;
            cluster.pass(Duration::from_secs(1)).await;
            assert!(cluster.find(kind, "c").is_none(), "{kind} of {referrer_kind}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn last_reference_unblocks() {
    let cluster = Cluster::running().await;
    let kind = "MCPOIDCConfig";
    for name in ["c", "d"] {
        cluster.put(config(kind, name, "one"));
    }
    for name in ["a", "b"] {
        cluster.put(virtual_server(kind, name, "c"));
    }
    cluster.settle().await;
    cluster.delete(kind, "c").await;
    cluster.settle().await;
    let message = || cluster.condition_of(kind, "c", "DeletionBlocked").map(|(_, _, text)| text);
    assert!(message().unwrap().contains("by VirtualMCPServer/a, VirtualMCPServer/b;"));
    // One leaves by deletion, the other by an edit.
    cluster.delete("VirtualMCPServer", "a").await;
    cluster.settle().await;
    assert!(message().unwrap().contains("by VirtualMCPServer/b;"));
    cluster.put(virtual_server(kind, "b", "d"));
    cluster.pass(Duration::from_secs(1)).await;
    assert!(cluster.find(kind, "c").is_none());
    assert_eq!(count_events(&cluster, "DeletionBlocked"), 1);
}

#[tokio::test(start_paused = true)]
async fn two_configs_wait_for_one_server() {
    let cluster = Cluster::running().await;
    let (oidc, telemetry) = ("MCPOIDCConfig", "MCPTelemetryConfig");
    cluster.put(config(oidc, "c", "one"));
    cluster.put(config(telemetry, "c", "one"));
    let mut server = virtual_server(oidc, "a", "c");
    server["spec"]["telemetryConfigRef"] = json!({"name": "c"});
    cluster.put(server);
    cluster.settle().await;
    cluster.delete(oidc, "c").await;
    cluster.delete(telemetry, "c").await;
    cluster.settle().await;
    for kind in [oidc, telemetry] {
        assert_eq!(cluster.reason_of(kind, "c", "DeletionBlocked"), "ReferencedByWorkloads");
    }
    // An object that is being deleted is still in use.
    assert_eq!(cluster.reason("a", "OIDCConfigRefValidated"), "OIDCConfigRefValid");
    cluster.delete("VirtualMCPServer", "a").await;
    cluster.settle().await;
    assert!(cluster.find(oidc, "c").is_none() && cluster.find(telemetry, "c").is_none());
}

#[tokio::test(start_paused = true)]
async fn message_names_ten_referrers() {
    let cluster = Cluster::running().await;
    let kind = "MCPToolConfig";
    cluster.put(config(kind, "c", "one"));
    for index in 0..12 {
        cluster.put(workload("MCPServer", kind, &format!("s{index:02}"), "c"));
    }
    cluster.settle().await;
    cluster.delete(kind, "c").await;
    cluster.settle().await;
    let (_, _, message) = cluster.condition_of(kind, "c", "DeletionBlocked").unwrap();
    assert!(message.contains("MCPServer/s09 and 2 more;"), "{message}");
}

/// Such a server cannot come back, and may own the configuration: it would wait for it, and the configuration for the server.
#[tokio::test(start_paused = true)]
async fn server_being_deleted_blocks_nothing() {
    let cluster = Cluster::running().await;
    let kind = "MCPOIDCConfig";
    cluster.put(config(kind, "c", "one"));
    let mut server = virtual_server(kind, "a", "c");
    server["metadata"]["finalizers"] = json!(["example.com/wait"]);
    cluster.put(server);
    cluster.settle().await;
    cluster.delete("VirtualMCPServer", "a").await;
    cluster.settle().await;
    assert!(cluster.find("VirtualMCPServer", "a").is_some());
    cluster.delete(kind, "c").await;
    cluster.settle().await;
    assert!(cluster.find(kind, "c").is_none());
}

/// The store does not know the referrer, whose watch is down; the list before the finalizer goes shows it.
#[tokio::test(start_paused = true)]
async fn referrer_unknown_to_watch_blocks_deletion() {
    let cluster = Cluster::running().await;
    let kind = "MCPToolConfig";
    cluster.put(config(kind, "c", "one"));
    cluster.settle().await;
    let rule = FaultRule::new(Fault::Status(500)).on_verbs(&["watch"]).on_resource("mcpservers");
    cluster.server.disturb(rule);
    cluster.server.drop_watches();
    cluster.pass(Duration::from_secs(2)).await;
    cluster.put(workload("MCPServer", kind, "late", "c"));
    cluster.server.forget_requests();
    cluster.delete(kind, "c").await;
    cluster.pass(Duration::from_secs(2)).await;
    let (_, _, message) = cluster.condition_of(kind, "c", "DeletionBlocked").unwrap();
    assert!(message.contains("MCPServer/late"), "{message}");
    let lists = cluster.server.requests().into_iter();
    let lists = lists.filter(|one| one.verb == "list" && one.resource == "virtualmcpservers");
    assert_eq!(lists.count(), 1, "referrers are listed once");
    // The retry lists them once more, and the deletion ends: no watch tells of it.
    cluster.delete("MCPServer", "late").await;
    cluster.settle().await;
    assert!(cluster.find(kind, "c").is_none());
}

#[tokio::test(start_paused = true)]
async fn forbidden_list_keeps_finalizer() {
    let cluster = Cluster::running().await;
    let kind = "MCPToolConfig";
    cluster.put(config(kind, "c", "one"));
    cluster.settle().await;
    let rule = FaultRule::new(Fault::Status(403)).on_verbs(&["list"]).on_resource("mcpservers");
    cluster.server.disturb(rule);
    cluster.delete(kind, "c").await;
    cluster.settle().await;
    assert!(cluster.find(kind, "c").is_some());
    cluster.server.revive();
    cluster.pass(Duration::from_mins(6)).await;
    assert!(cluster.find(kind, "c").is_none());
}

#[tokio::test(start_paused = true)]
async fn unreadable_secret_holds_no_deletion() {
    let cluster = Cluster::running().await;
    let key = json!({"name": "s", "key": "k"});
    let header = json!({"headerName": "X-Key", "valueSecretRef": key});
    let kind = "MCPExternalAuthConfig";
    let spec = json!({"type": "headerInjection", "headerInjection": header});
    cluster.put(resource_of(kind, "c", spec));
    cluster.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "eA=="}}));
    cluster.settle().await;
    let rule = FaultRule::new(Fault::Status(403)).on_verbs(&["get"]).on_resource("secrets");
    cluster.server.disturb(rule);
    cluster.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "eQ=="}}));
    cluster.delete(kind, "c").await;
    cluster.settle().await;
    assert!(cluster.find(kind, "c").is_none());
}
