//! API server and objects that go away.

use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use vmcp_kube_fixture::{Fault, FaultRule};
use vmcp_status_reporter::BackendStatus;

use super::support::{Cluster, backend, show, view};

async fn delete(cluster: &Cluster, group: &str, version: &str, kind: &str, name: &str) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::default_namespaced_with(cluster.client(), &kind);
    api.delete(name, &DeleteParams::background()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unreachable_api_server_is_asked_ever_less() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Ready)]);
    let reporter = cluster.start("one", &view);
    cluster.pass(1).await;
    cluster.server.disturb(FaultRule::new(Fault::Refuse));
    show(&view, &[backend("a", BackendStatus::Degraded)]);
    cluster.pass(600).await;
    assert!(!reporter.counts().is_leader);
    cluster.server.forget_requests();
    cluster.pass(600).await;
    let requests = cluster.server.requests().len();
    assert!((10..=25).contains(&requests), "{requests}");
    cluster.server.revive();
    cluster.pass(60).await;
    assert_eq!(cluster.backends(), ["a degraded"]);
    assert!(reporter.counts().is_leader);
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_retried_with_backoff() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Ready)]);
    let status = "virtualmcpservers/status";
    for fault in [Fault::Conflict, Fault::Status(500), Fault::Delay(Duration::from_mins(1))] {
        cluster.server.disturb(FaultRule::new(fault).on_verbs(&["patch"]).times(2));
    }
    let reporter = cluster.start("one", &view);
    cluster.pass(120).await;
    assert_eq!(cluster.backends(), ["a ready"], "{status}");
    let counts = reporter.counts();
    assert_eq!((counts.failures, counts.writes, counts.is_leader), (6, 1, true));
}

#[tokio::test(start_paused = true)]
async fn conflict_of_lease_does_not_end_leadership() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Ready)]);
    let reporter = cluster.start("one", &view);
    cluster.pass(1).await;
    let rule = FaultRule::new(Fault::Conflict).on_verbs(&["update"]).times(2);
    cluster.server.disturb(rule);
    for _ in 0..20 {
        cluster.pass(1).await;
        assert!(reporter.counts().is_leader);
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_server_is_not_created() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Ready)]);
    let reporter = cluster.start("one", &view);
    cluster.pass(1).await;
    delete(&cluster, "vmcp.dev", "v1beta1", "VirtualMCPServer", "tools").await;
    cluster.pass(120).await;
    let problem = reporter.reporter.progress().problem();
    assert_eq!(problem.as_deref(), Some("VirtualMCPServer default/tools does not exist"));
    assert!(cluster.find("vmcp.dev", "virtualmcpservers", "tools").is_none());
    cluster.put_server();
    cluster.pass(60).await;
    assert_eq!(cluster.backends(), ["a ready"]);
}

#[tokio::test(start_paused = true)]
async fn reports_pause_while_lease_is_missing() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Ready)]);
    let reporter = cluster.start("one", &view);
    cluster.pass(1).await;
    delete(&cluster, "coordination.k8s.io", "v1", "Lease", "tools-vmcp-status").await;
    cluster.pass(60).await;
    assert!(!reporter.counts().is_leader);
    assert!(cluster.find("coordination.k8s.io", "leases", "tools-vmcp-status").is_none());
    show(&view, &[backend("a", BackendStatus::Degraded)]);
    cluster.pass(60).await;
    assert_eq!(cluster.backends(), ["a ready"]);
    cluster.put_lease();
    cluster.pass(60).await;
    assert_eq!(cluster.backends(), ["a degraded"]);
    assert!(reporter.counts().is_leader);
}

#[tokio::test(start_paused = true)]
async fn slow_api_server_delays_no_replica() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Ready)]);
    cluster.server.disturb(FaultRule::new(Fault::Delay(Duration::from_secs(2))));
    let reporter = cluster.start("one", &view);
    cluster.pass(300).await;
    assert_eq!(cluster.backends(), ["a ready"]);
    assert_eq!((reporter.counts().is_leader, reporter.counts().failures), (true, 0));
}

#[tokio::test(start_paused = true)]
async fn missing_permissions_are_told() {
    let cluster = Cluster::new();
    let started = cluster.now();
    let view = view(&[backend("a", BackendStatus::Ready)]);
    let replica = cluster.start("one", &view);
    let progress = replica.reporter.progress();
    cluster.pass(1).await;
    assert_eq!((progress.problem(), progress.last_success()), (None, Some(started)));
    cluster.server.disturb(FaultRule::new(Fault::Status(403)).on_verbs(&["patch"]));
    show(&view, &[backend("a", BackendStatus::Degraded)]);
    cluster.pass(120).await;
    let problem = progress.problem().unwrap();
    assert!(problem.contains("(403)") && problem.contains("role"), "{problem}");
    assert!(progress.counts().failures > 1 && progress.counts().is_leader);
    cluster.server.revive();
    cluster.pass(120).await;
    assert_eq!((progress.problem(), cluster.backends()), (None, vec!["a degraded".to_owned()]));
    // Without permissions for the Lease.
    cluster.server.disturb(FaultRule::new(Fault::Status(403)).on_resource("leases"));
    cluster.pass(60).await;
    assert!(!progress.counts().is_leader);
    assert!(progress.problem().unwrap().contains("(403)"), "{:?}", progress.problem());
}
