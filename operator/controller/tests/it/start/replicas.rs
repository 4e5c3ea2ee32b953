//! Several real servers that are replicas of one VirtualMCPServer.

use std::time::Duration;

use tokio::time::Instant;
use vmcp_test_support::McpBackend;

use super::cluster::{Kubernetes, replica};
use super::pod::Pod;
use super::reports::{FAST, handling, member};

/// Starts two pods, and returns them with the index of the one that reports.
async fn start_both(cluster: &Kubernetes) -> ([Pod; 2], usize) {
    let pods = [cluster.replica(0), cluster.replica(1)];
    for pod in &pods {
        pod.until_ready().await;
    }
    pods[0].until(async || cluster.backend("x")["status"] == "ready").await;
    let holder = cluster.holder();
    let reporting = (0..2).find(|index| replica(*index) == holder);
    (pods, reporting.unwrap_or_else(|| panic!("{holder}")))
}

/// Waits until a pod reports, and returns how long it takes.
async fn wait_holder(cluster: &Kubernetes, pod: &Pod, index: usize) -> Duration {
    let start = Instant::now();
    pod.until(async || cluster.holder() == replica(index)).await;
    start.elapsed()
}

#[tokio::test]
async fn other_pod_takes_over_after_crash() {
    let mut backend = McpBackend::stateless(&["x"]);
    let manifests = handling(FAST) + &member("x", &backend.url());
    let cluster = Kubernetes::new("replicas-crash", &manifests).await;
    let (pods, reporting) = start_both(&cluster).await;
    let other = 1 - reporting;
    let leader =
        async |index: usize| pods[index].status().await["status_reports"]["leader"].clone();
    assert_eq!((leader(reporting).await, leader(other).await), (true.into(), false.into()));
    let transition = cluster.condition("BackendsReady")["lastTransitionTime"].clone();
    pods[reporting].kill().await;
    let time = wait_holder(&cluster, &pods[other], other).await;
    assert!(time <= Duration::from_secs(15), "{time:?}");
    let condition = cluster.condition("BackendsReady");
    assert_eq!(condition["lastTransitionTime"], transition, "the other pod found nothing new");
    backend.stop();
    pods[other].until(async || cluster.backend("x")["status"] == "unavailable").await;
    assert_ne!(cluster.condition("BackendsReady")["lastTransitionTime"], transition);
}

#[tokio::test]
async fn stopped_pod_hands_over_soon() {
    let backend = McpBackend::stateless(&["x"]);
    let manifests = handling(FAST) + &member("x", &backend.url());
    let cluster = Kubernetes::new("replicas-stop", &manifests).await;
    let (pods, reporting) = start_both(&cluster).await;
    let other = 1 - reporting;
    let start = Instant::now();
    pods[reporting].stop().await;
    assert_ne!(cluster.holder(), replica(reporting), "given up");
    wait_holder(&cluster, &pods[other], other).await;
    // The next attempt, rather than the end of the Lease after nine seconds.
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

#[tokio::test]
async fn pods_with_different_views_do_not_flap() {
    let mut backend = McpBackend::stateless(&["x"]);
    let manifests = handling(FAST) + &member("x", &backend.url());
    let cluster = Kubernetes::new("replicas-views", &manifests).await;
    let (pods, reporting) = start_both(&cluster).await;
    // The other pod knows another address, where nothing listens.
    let other = &pods[1 - reporting];
    let configuration = other.configuration().replace(&backend.url(), "http://127.0.0.1:1/mcp");
    other.write_configuration(&configuration);
    let seen = async || other.status().await["backends"][0]["status"].clone();
    other.until(async || seen().await == "unavailable").await;
    let (status, writes) = (cluster.status(), cluster.status_writes());
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(cluster.status(), status);
    }
    assert_eq!(cluster.status_writes(), writes);
    backend.stop();
}
