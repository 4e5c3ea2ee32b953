//! Configuration by which the API server calls the webhook.

use super::*;

fn webhook(cluster: &Cluster) -> Value {
    cluster.find_configuration().unwrap()["webhooks"][0].clone()
}

fn put(cluster: &Cluster, configuration: &Value) {
    cluster.server.put(configuration).unwrap();
}

#[tokio::test(start_paused = true)]
async fn failures_of_webhook_are_ignored() {
    let cluster = with_webhook().await;
    let webhook = webhook(&cluster);
    assert_eq!(
        (&webhook["failurePolicy"], &webhook["timeoutSeconds"]),
        (&json!("Ignore"), &json!(2))
    );
    assert_eq!(webhook["sideEffects"], "None");
    let service = json!({"namespace": "default", "name": "vmcp-operator-webhook", "path": "/validate", "port": 443});
    assert_eq!(webhook["clientConfig"]["service"], service);
    assert_eq!(
        webhook["rules"][0]["resources"],
        json!(["mcpexternalauthconfigs", "virtualmcpservers"])
    );
}

/// The schemas of Kubernetes' releases are applied to the file (`tests/tests/real/generated_objects.rs`).
#[tokio::test(start_paused = true)]
async fn configuration_is_as_recorded() {
    let cluster = with_webhook().await;
    let mut configuration = cluster.find_configuration().unwrap();
    let metadata = &configuration["metadata"];
    configuration["metadata"] = json!({"name": metadata["name"], "labels": metadata["labels"]});
    configuration["webhooks"][0]["clientConfig"]["caBundle"] = "Y2E=".into();
    configuration.sort_all_objects();
    let text = format!("---\n{}", serde_saphyr::to_string(&configuration).unwrap());
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/webhook/objects");
    let path = folder.join("configuration.yaml");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "UPDATE_SNAPSHOTS=1 writes the file");
}

#[tokio::test(start_paused = true)]
async fn changed_configuration_is_put_back() {
    let cluster = with_webhook().await;
    let applied = webhook(&cluster);
    let mut changed = cluster.find_configuration().unwrap();
    changed["webhooks"][0]["failurePolicy"] = "Fail".into();
    changed["webhooks"][0]["clientConfig"]["caBundle"] = "".into();
    put(&cluster, &changed);
    cluster.settle().await;
    assert_eq!(webhook(&cluster), applied);
    let (group, plural) = ("admissionregistration.k8s.io", "validatingwebhookconfigurations");
    cluster.take_writes();
    cluster.pass(Duration::from_hours(1)).await;
    assert_eq!(cluster.take_writes(), [""; 0]);
    assert!(cluster.server.get(group, plural, "", "vmcp-operator-webhook.default").is_some());
    assert!(refuses(&cluster).await);
}

#[tokio::test(start_paused = true)]
async fn watched_namespaces_limit_configuration() {
    let mut cluster = Cluster::new();
    cluster.start_operator(|operator| {
        operator.namespaces(vec!["default".to_owned()]).webhook(service(), no_connections())
    });
    cluster.settle().await;
    let selector = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["default"]},
    ]});
    assert_eq!(webhook(&cluster)["namespaceSelector"], selector);
    cluster.take_writes();
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn operator_without_webhook_deletes_configuration() {
    let mut cluster = with_webhook().await;
    cluster.stop().await;
    assert!(cluster.find_configuration().is_some());
    cluster.start_operator(|operator| operator.without_webhook(service()));
    cluster.settle().await;
    assert!(cluster.find_configuration().is_none());
    // The certificate may be of use again.
    assert!(secret(&cluster).is_some());
}

#[tokio::test(start_paused = true)]
async fn foreign_configuration_is_left_alone() {
    let mut cluster = Cluster::new();
    let foreign = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "vmcp-operator-webhook.default"}, "webhooks": [],
    });
    put(&cluster, &foreign);
    cluster.start_operator(|operator| operator.webhook(service(), no_connections()));
    cluster.settle().await;
    assert_eq!(cluster.find_configuration().unwrap()["webhooks"], json!([]));
    cluster.stop().await;
    cluster.start_operator(|operator| operator.without_webhook(service()));
    cluster.settle().await;
    assert!(cluster.find_configuration().is_some());
}
