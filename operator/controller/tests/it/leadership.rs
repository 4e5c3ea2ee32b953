//! Leader election among replicas of the operator.

use std::time::Duration;

use vmcp_kube_fixture::{Fault, FaultRule};
use vmcp_operator::LeaseName;

use super::operator_roles::NAMESPACE;
use super::support::{Cluster, server};

fn lease() -> LeaseName {
    LeaseName { namespace: NAMESPACE.to_owned(), name: "vmcp-operator-leader".to_owned() }
}

fn start(cluster: &mut Cluster, identity: &str) {
    let identity = identity.to_owned();
    cluster.start_operator(|operator| operator.leader_election(lease()).identity(identity));
}

fn holder(cluster: &Cluster) -> String {
    let LeaseName { namespace, name } = lease();
    let lease = cluster.server.get("coordination.k8s.io", "leases", &namespace, &name).unwrap();
    lease["spec"]["holderIdentity"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn second_replica_waits_until_lease_expires() {
    let mut cluster = Cluster::new();
    cluster.put_group();
    start(&mut cluster, "one");
    cluster.settle().await;
    assert_eq!(holder(&cluster), "one");
    let first = cluster.take_operator();
    start(&mut cluster, "two");
    cluster.settle().await;
    assert_eq!(holder(&cluster), "one");
    first.abort();
    cluster.put(server("a", |_| {}));
    cluster.pass(Duration::from_secs(10)).await;
    assert!(cluster.find("Deployment", "a-vmcp").is_none());
    cluster.pass(Duration::from_secs(10)).await;
    assert_eq!(holder(&cluster), "two");
    assert!(cluster.find("Deployment", "a-vmcp").is_some());
}

#[tokio::test(start_paused = true)]
async fn stopped_leader_hands_over_at_once() {
    let mut cluster = Cluster::new();
    start(&mut cluster, "one");
    cluster.settle().await;
    let first = cluster.take_operator();
    start(&mut cluster, "two");
    cluster.settle().await;
    first.stop().await.unwrap();
    cluster.pass(Duration::from_secs(4)).await;
    assert_eq!(holder(&cluster), "two");
}

#[tokio::test(start_paused = true)]
async fn leader_without_renewal_ends() {
    let mut cluster = Cluster::new();
    start(&mut cluster, "one");
    cluster.settle().await;
    cluster.server.disturb(FaultRule::new(Fault::Refuse).on_resource("leases"));
    cluster.pass(Duration::from_secs(15)).await;
    let error = cluster.take_operator().wait().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "lost the leadership: the Lease vmcp-operator-leader was not renewed within 10 s"
    );
}

#[tokio::test(start_paused = true)]
async fn leader_writes_lease_alone_at_rest() {
    let mut cluster = Cluster::new();
    start(&mut cluster, "one");
    cluster.settle().await;
    cluster.take_writes();
    cluster.pass(Duration::from_hours(1)).await;
    let writes = cluster.take_writes();
    assert!(writes.len() > 1_000, "{}", writes.len());
    let renewal = "update leases.coordination.k8s.io kube-system/vmcp-operator-leader";
    assert!(writes.iter().all(|line| line == renewal));
}
