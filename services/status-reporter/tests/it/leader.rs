//! Several replicas.

use vmcp_status_reporter::BackendStatus;

use super::support::{Cluster, Replica, View, backend, show, view};

/// Starts two replicas, of which the first leads.
async fn start_both(cluster: &Cluster, first: &View, second: &View) -> (Replica, Replica) {
    let one = cluster.start("one", first);
    cluster.pass(1).await;
    let two = cluster.start("two", second);
    cluster.pass(60).await;
    (one, two)
}

#[tokio::test(start_paused = true)]
async fn other_replica_takes_over_within_15_seconds() {
    for offset in [0, 2, 4, 5] {
        let cluster = Cluster::new();
        let (ready, away) = (BackendStatus::Ready, BackendStatus::Unavailable);
        let (first, second) = (view(&[backend("a", ready)]), view(&[backend("a", away)]));
        let (one, two) = start_both(&cluster, &first, &second).await;
        cluster.pass(offset).await;
        assert_eq!(cluster.backends(), ["a ready"]);
        assert!(!two.counts().is_leader);
        let transition = cluster.condition("BackendsDiscovered").unwrap();
        one.crash();
        cluster.pass(15).await;
        assert_eq!(
            (cluster.holder(), cluster.backends()),
            ("two".into(), vec!["a unavailable".into()])
        );
        assert!(two.counts().is_leader);
        assert_eq!(cluster.condition("BackendsDiscovered").unwrap(), transition);
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_replica_hands_over_soon() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Ready)]);
    let (one, _two) = start_both(&cluster, &view, &view).await;
    one.stop().await;
    assert_eq!(cluster.holder(), "");
    cluster.pass(6).await;
    assert_eq!(cluster.holder(), "two");
}

#[tokio::test(start_paused = true)]
async fn diverging_replicas_do_not_flap() {
    let cluster = Cluster::new();
    let (ready, away) = (BackendStatus::Ready, BackendStatus::Unavailable);
    let (first, second) = (view(&[backend("a", ready)]), view(&[backend("a", away)]));
    let _both = start_both(&cluster, &first, &second).await;
    cluster.take_writes();
    let status = cluster.status();
    for _ in 0..1_000 {
        cluster.pass(30).await;
        assert_eq!(cluster.status(), status);
    }
    assert_eq!(cluster.take_writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn takeover_without_news_writes_nothing() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Ready)]);
    let (one, _two) = start_both(&cluster, &view, &view).await;
    cluster.take_writes();
    one.crash();
    cluster.pass(600).await;
    assert_eq!((cluster.holder().as_str(), cluster.take_writes()), ("two", 0));
    show(&view, &[backend("a", BackendStatus::Degraded)]);
    cluster.pass(31).await;
    assert_eq!(cluster.take_writes(), 1);
}
