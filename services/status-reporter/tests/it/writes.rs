//! Writes of one replica.

use std::time::Duration;

use serde_json::json;
use vmcp_status_reporter::{BackendReport, BackendStatus, Cause, Circuit, CircuitBreakerState};

use super::support::{Cluster, backend, show, view};

#[tokio::test(start_paused = true)]
async fn first_report_has_every_field() {
    let cluster = Cluster::new();
    let checked = cluster.now();
    let broken = BackendReport {
        cause: Some(Cause::Timeout),
        auth_config: "github".to_owned(),
        auth_type: "token_exchange".to_owned(),
        last_check: Some(checked),
        consecutive_failures: 3,
        circuit: Some(Circuit { state: CircuitBreakerState::Open, last_changed: Some(checked) }),
        ..backend("b", BackendStatus::Unavailable)
    };
    let view = view(&[broken, backend("a", BackendStatus::Ready)]);
    let reporter = cluster.start("one", &view);
    cluster.pass(1).await;
    let status = cluster.status();
    assert_eq!(
        status["discoveredBackends"],
        json!([
            {
                "name": "a", "url": "http://a.example/mcp", "status": "ready",
                "authType": "unauthenticated", "message": "Healthy", "consecutiveFailures": 0,
            },
            {
                "name": "b", "url": "http://b.example/mcp", "status": "unavailable",
                "authType": "token_exchange", "authConfigRef": "github",
                "message": "Circuit breaker OPEN - Health check timed out (failed checks: 3)",
                "lastHealthCheck": "2027-01-15T08:00:00Z", "consecutiveFailures": 3,
                "circuitBreakerState": "open", "circuitLastChanged": "2027-01-15T08:00:00Z",
            },
        ])
    );
    assert_eq!(status["backendCount"], 1);
    let ready = cluster.condition("BackendsReady").unwrap();
    assert_eq!(
        ready,
        json!({
            "type": "BackendsReady", "status": "False", "reason": "SomeBackendsUnhealthy",
            "message": "requests reach 1 of 2 backends, but not b", "observedGeneration": 1,
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        })
    );
    assert_eq!(cluster.condition("BackendsDiscovered").unwrap()["status"], "True");
    assert!(cluster.condition("Degraded").is_none());
    assert_eq!((reporter.counts().writes, reporter.counts().is_leader), (1, true));
}

#[tokio::test(start_paused = true)]
async fn writes_nothing_while_nothing_changes() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Ready)]);
    let _reporter = cluster.start("one", &view);
    cluster.pass(1).await;
    assert_eq!(cluster.take_writes(), 1);
    cluster.pass(3600).await;
    assert_eq!(cluster.take_writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_before_first_checks() {
    let cluster = Cluster::new();
    let view = view(&[]);
    *view.lock().unwrap() = None;
    let _reporter = cluster.start("one", &view);
    cluster.pass(60).await;
    assert_eq!(cluster.take_writes(), 0);
    show(&view, &[backend("a", BackendStatus::Ready)]);
    cluster.pass(3).await;
    assert_eq!(cluster.backends(), ["a ready"]);
}

#[tokio::test(start_paused = true)]
async fn changed_health_waits_for_interval() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Ready)]);
    let _reporter = cluster.start("one", &view);
    cluster.pass(10).await;
    show(&view, &[backend("a", BackendStatus::Unavailable)]);
    cluster.pass(15).await;
    assert_eq!(cluster.backends(), ["a ready"]);
    cluster.pass(10).await;
    assert_eq!(cluster.backends(), ["a unavailable"]);
}

#[tokio::test(start_paused = true)]
async fn new_backend_is_reported_at_once() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Ready), backend("b", BackendStatus::Ready)]);
    let _reporter = cluster.start("one", &view);
    cluster.pass(1).await;
    show(&view, &[backend("b", BackendStatus::Ready), backend("c", BackendStatus::Unknown)]);
    cluster.pass(3).await;
    assert_eq!(cluster.backends(), ["b ready", "c unknown"]);
}

#[tokio::test(start_paused = true)]
async fn first_check_is_reported_at_once() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Unknown)]);
    let _reporter = cluster.start("one", &view);
    cluster.pass(1).await;
    assert_eq!(cluster.backends(), ["a unknown"]);
    show(&view, &[backend("a", BackendStatus::Ready)]);
    cluster.pass(3).await;
    assert_eq!(cluster.backends(), ["a ready"]);
    // A replaced backend waits for its check and the interval, and does not flap.
    show(&view, &[backend("a", BackendStatus::Unknown)]);
    cluster.pass(3).await;
    assert_eq!(cluster.backends(), ["a ready"]);
}

#[tokio::test(start_paused = true)]
async fn tiny_interval_is_one_second() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Ready)]);
    let _reporter = cluster.start_every(Duration::from_millis(1), "one", &view);
    cluster.pass(60).await;
    let reads = cluster.server.requests();
    let reads = reads.iter().filter(|one| one.verb == "get" && one.resource != "leases").count();
    assert!((55..=61).contains(&reads), "{reads}");
}

#[tokio::test(start_paused = true)]
async fn checks_alone_are_written_every_five_minutes() {
    let cluster = Cluster::new();
    let checked = |failures| BackendReport {
        last_check: Some(cluster.now()),
        consecutive_failures: failures,
        ..backend("a", BackendStatus::Unavailable)
    };
    let view = view(&[checked(1)]);
    let _reporter = cluster.start("one", &view);
    let mut writes = 0;
    for failures in 1..=119 {
        show(&view, &[checked(failures)]);
        cluster.pass(30).await;
        writes += cluster.take_writes();
    }
    // The first one, and one every five minutes of the hour.
    assert!((10..=12).contains(&writes), "{writes}");
    let failures = &cluster.status()["discoveredBackends"][0]["consecutiveFailures"];
    assert!(failures.as_u64().unwrap() > 100, "{failures}");
}

#[tokio::test(start_paused = true)]
async fn transition_time_changes_with_status_only() {
    let cluster = Cluster::new();
    let ready = BackendStatus::Ready;
    let view = view(&[backend("a", ready), backend("b", BackendStatus::Unavailable)]);
    let _reporter = cluster.start("one", &view);
    cluster.pass(1).await;
    let first = cluster.condition("BackendsReady").unwrap();
    show(&view, &[backend("a", BackendStatus::Degraded), backend("b", BackendStatus::Degraded)]);
    cluster.pass(60).await;
    let second = cluster.condition("BackendsReady").unwrap();
    assert_eq!(second["reason"], "NoRoutableBackends");
    assert_eq!(second["lastTransitionTime"], first["lastTransitionTime"]);
    assert_eq!(cluster.condition("Degraded").unwrap()["message"], "degraded: a, b");
    show(&view, &[backend("a", ready), backend("b", ready)]);
    cluster.pass(60).await;
    let third = cluster.condition("BackendsReady").unwrap();
    assert_eq!(third["status"], "True");
    assert_ne!(third["lastTransitionTime"], first["lastTransitionTime"]);
    assert!(cluster.condition("Degraded").is_none());
}

#[tokio::test(start_paused = true)]
async fn fields_of_operator_are_left_alone() {
    let cluster = Cluster::new();
    let own = json!({
        "phase": "Ready", "url": "http://x/mcp", "observedGeneration": 1,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "DeploymentReady", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    cluster.apply_status("vmcp-operator", own.clone()).await;
    let view = view(&[backend("a", BackendStatus::Ready)]);
    let _reporter = cluster.start("one", &view);
    cluster.pass(1).await;
    cluster.apply_status("vmcp-operator", own.clone()).await;
    cluster.pass(60).await;
    let status = cluster.status();
    assert_eq!((&status["phase"], &status["url"]), (&json!("Ready"), &json!("http://x/mcp")));
    assert_eq!(cluster.condition("Ready").unwrap(), own["conditions"][0]);
    assert_eq!(cluster.backends(), ["a ready"]);
    assert!(cluster.condition("BackendsReady").is_some());
}

#[tokio::test(start_paused = true)]
async fn changed_status_is_put_back() {
    let cluster = Cluster::new();
    let view = view(&[backend("a", BackendStatus::Ready)]);
    let _reporter = cluster.start("one", &view);
    cluster.pass(1).await;
    let foreign =
        json!({"discoveredBackends": [{"name": "a", "status": "unknown"}, {"name": "z"}]});
    cluster.apply_status("kubectl", foreign).await;
    cluster.pass(60).await;
    let status = cluster.status();
    assert_eq!(status["discoveredBackends"][0]["status"], "ready");
    // An entry of another manager stays, and causes no further writes.
    assert_eq!(status["discoveredBackends"][1]["name"], "z");
    cluster.take_writes();
    cluster.pass(3600).await;
    assert_eq!(cluster.take_writes(), 0);
}
