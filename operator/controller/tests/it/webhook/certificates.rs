//! CertificateSet: made once, shared, rotated, and always trusted.

use vmcp_kube_fixture::{Fault, FaultRule};

use super::*;

fn value(cluster: &Cluster, key: &str) -> String {
    secret(cluster).unwrap()["data"][key].as_str().unwrap_or_default().to_owned()
}

fn bundle(cluster: &Cluster) -> String {
    let configuration = cluster.find_configuration().unwrap();
    configuration["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn replicas_share_first_certificate() {
    let mut cluster = Cluster::new();
    // Both find no Secret.
    cluster.server.disturb(
        FaultRule::new(Fault::Delay(Duration::from_secs(5)))
            .on_verbs(&["create"])
            .on_resource("secrets"),
    );
    let first = start_replica(&mut cluster, "one");
    let one = cluster.take_operator();
    let second = start_replica(&mut cluster, "two");
    cluster.settle().await;
    let creates = cluster.server.requests();
    let creates: Vec<_> = creates
        .iter()
        .filter(|one| one.verb == "create" && one.resource == "secrets")
        .map(|one| one.status)
        .collect();
    assert_eq!(creates, [201, 409]);
    for replica in [first, second] {
        route(&cluster, &replica);
        assert!(refuses(&cluster).await);
    }
    one.abort();
}

#[tokio::test(start_paused = true)]
async fn rotation_leaves_no_gap() {
    let mut cluster = Cluster::new();
    let first = start_replica(&mut cluster, "one");
    let one = cluster.take_operator();
    let second = start_replica(&mut cluster, "two");
    cluster.settle().await;
    let (certificate, old) = (value(&cluster, "tls.crt"), bundle(&cluster));
    cluster.skip_days(59);
    cluster.settle().await;
    assert_eq!(value(&cluster, "tls.crt"), certificate);
    cluster.skip_days(1);
    // Each replica responds at each time of the rotation.
    let (mut bundles, mut certificates) = (vec![old.clone()], vec![certificate]);
    for second_of_rotation in 0..180 {
        cluster.pass(Duration::from_secs(1)).await;
        for replica in [&first, &second] {
            route(&cluster, replica);
            assert!(refuses(&cluster).await, "{second_of_rotation} s");
        }
        bundles.push(bundle(&cluster));
        certificates.push(value(&cluster, "tls.crt"));
    }
    bundles.dedup();
    certificates.dedup();
    assert_eq!(certificates.len(), 2, "one rotation");
    assert_eq!(bundles.len(), 2, "from the old authority to both");
    cluster.skip_days(31);
    cluster.settle().await;
    assert_ne!(bundle(&cluster), bundles[1], "the old authority has gone");
    for replica in [&first, &second] {
        route(&cluster, replica);
        assert!(refuses(&cluster).await);
    }
    one.abort();
}

#[tokio::test(start_paused = true)]
async fn cluster_at_rest_has_no_writes() {
    let cluster = with_webhook().await;
    for _ in 0..59 {
        cluster.skip_days(1);
        cluster.settle().await;
    }
    assert_eq!(cluster.take_writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn restart_keeps_certificate() {
    let mut cluster = with_webhook().await;
    let certificate = value(&cluster, "tls.crt");
    cluster.stop().await;
    let (sender, connections) = connections();
    route(&cluster, &sender);
    cluster.start_operator(|operator| operator.webhook(service(), connections));
    cluster.settle().await;
    assert_eq!(value(&cluster, "tls.crt"), certificate);
    assert_eq!(cluster.take_writes(), [""; 0]);
    assert!(refuses(&cluster).await);
}

#[tokio::test(start_paused = true)]
async fn long_stop_ends_in_new_certificate() {
    let mut cluster = with_webhook().await;
    cluster.stop().await;
    cluster.skip_days(200);
    let (sender, connections) = connections();
    route(&cluster, &sender);
    cluster.start_operator(|operator| operator.webhook(service(), connections));
    cluster.settle().await;
    assert!(refuses(&cluster).await);
}

#[tokio::test(start_paused = true)]
async fn deleted_or_damaged_secret_comes_back() {
    let cluster = with_webhook().await;
    let certificate = value(&cluster, "tls.crt");
    cluster.delete("Secret", "vmcp-operator-webhook-certificate").await;
    cluster.settle().await;
    assert_eq!(value(&cluster, "tls.crt"), certificate);
    for key in ["tls.crt", "tls.key", "ca.crt"] {
        let mut damaged = secret(&cluster).unwrap();
        damaged["data"][key] = "eA==".into();
        cluster.put(damaged);
        cluster.settle().await;
        assert_eq!(value(&cluster, "tls.crt"), certificate, "{key}");
        assert!(refuses(&cluster).await);
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_secret_is_left_alone() {
    let mut cluster = Cluster::new();
    let foreign = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vmcp-operator-webhook-certificate"},
        "data": {"mine": "YQ=="},
    });
    cluster.put(foreign.clone());
    let (sender, connections) = connections();
    route(&cluster, &sender);
    cluster.start_operator(|operator| operator.webhook(service(), connections));
    cluster.settle().await;
    assert_eq!(secret(&cluster).unwrap()["data"], foreign["data"]);
    assert!(cluster.find_configuration().is_none());
    // It goes, and the webhook comes.
    cluster.delete("Secret", "vmcp-operator-webhook-certificate").await;
    cluster.settle().await;
    assert!(refuses(&cluster).await);
}

#[tokio::test(start_paused = true)]
async fn failures_of_api_server_are_retried() {
    let mut cluster = Cluster::new();
    cluster.server.disturb(FaultRule::new(Fault::Status(500)).on_writes().times(3));
    let (sender, connections) = connections();
    route(&cluster, &sender);
    cluster.start_operator(|operator| operator.webhook(service(), connections));
    cluster.settle().await;
    assert!(refuses(&cluster).await);
}

#[tokio::test(start_paused = true)]
async fn key_is_in_secret_alone() {
    let cluster = with_webhook().await;
    let secret = secret(&cluster).unwrap();
    assert_eq!(secret["type"], "kubernetes.io/tls");
    let keys: Vec<_> = secret["data"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["ca.crt", "tls.crt", "tls.key"]);
    let configuration = cluster.find_configuration().unwrap().to_string();
    assert!(!configuration.contains(value(&cluster, "tls.key").as_str()));
}
