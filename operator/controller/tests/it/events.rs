//! Events, on transitions only.

use std::time::Duration;

use serde_json::json;

use super::support::{Cluster, server};

#[tokio::test(start_paused = true)]
async fn event_follows_each_transition_once() {
    let mut cluster = Cluster::new();
    cluster.start().await;
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    assert_eq!(cluster.events(), ["Warning GroupRefNotFound: MCPGroup tools does not exist"]);
    cluster.pass(Duration::from_hours(1)).await;
    cluster.stop().await;
    cluster.start().await;
    assert_eq!(cluster.events().len(), 1);
    cluster.put_group();
    cluster.settle().await;
    let mut events = cluster.events();
    events.sort();
    assert_eq!(
        events,
        [
            "Normal DeploymentCreated: the Deployment was created",
            "Normal GroupRefValid: MCPGroup tools is ready",
            "Normal ServiceCreated: the Service was created",
            "Warning GroupRefNotFound: MCPGroup tools does not exist",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn warning_is_repeated_for_new_generation() {
    let cluster = Cluster::running().await;
    let inline = |name: &str| {
        let name = name.to_owned();
        server("a", move |spec| {
            spec["config"] = json!({"telemetry": {"endpoint": "http://otel:4318", "insecure": true, "serviceName": name, "tracingEnabled": true}});
        })
    };
    let count = || {
        let events = cluster.events();
        events.iter().filter(|line| line.starts_with("Warning InlineTelemetryDeprecated")).count()
    };
    cluster.put(inline("one"));
    cluster.settle().await;
    cluster.pass(Duration::from_hours(1)).await;
    assert_eq!(count(), 1, "{:?}", cluster.events());
    cluster.put(inline("two"));
    cluster.settle().await;
    assert_eq!(count(), 2);
}

#[tokio::test(start_paused = true)]
async fn changed_deployment_has_event() {
    let cluster = Cluster::with_server().await;
    cluster.put(server("a", |spec| spec["replicas"] = 2.into()));
    cluster.settle().await;
    let expected = "Normal DeploymentUpdated: the Deployment was changed".to_owned();
    assert!(cluster.events().contains(&expected));
}
