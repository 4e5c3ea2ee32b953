//! The operator and the real server together against one API server.

use kube::Client;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use vmcp_operator::plan::CONFIG_FILE;
use vmcp_operator::{Environment, Operator, Settings};
use vmcp_test_support::McpBackend;

use super::cluster::Kubernetes;
use super::pod::{Planned, Pod};
use super::reports::{FAST, handling};

/// Returns the columns that `kubectl get` prints of the server, but its age.
fn columns(cluster: &Kubernetes) -> Vec<(String, String)> {
    let definition = vmcp_api::definitions()
        .into_iter()
        .find(|one| one.spec.names.kind == "VirtualMCPServer")
        .unwrap();
    let columns = definition.spec.versions[0].additional_printer_columns.clone().unwrap();
    let status = json!({"status": cluster.status()});
    let columns = columns.into_iter().filter(|column| column.name != "Age");
    columns.map(|column| (column.name, text(&status, &column.json_path))).collect()
}

/// Returns what a JSON path leads to, as far as the columns use its language.
fn text(object: &Value, path: &str) -> String {
    let value = match path.split_once("[?(@.type=='") {
        None => object.pointer(&path.replace('.', "/")).cloned(),
        Some((list, rest)) => {
            let (type_, field) = rest.split_once("')].").unwrap();
            let list = object.pointer(&list.replace('.', "/")).and_then(Value::as_array);
            let found = list.into_iter().flatten().find(|one| one["type"] == type_);
            found.map(|found| found[field].clone())
        }
    };
    match value {
        Some(Value::String(text)) => text,
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

/// Starts the pod of the objects that the operator wrote.
async fn start_pod(cluster: &Kubernetes) -> Pod {
    let find = |group: &str, plural: &str| {
        let objects = cluster.server.list(group, plural);
        objects.into_iter().find(|one| one["metadata"]["namespace"] == "team")
    };
    let deployment = loop {
        if let Some(deployment) = find("apps", "deployments") {
            break deployment;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let config_map = find("", "configmaps").unwrap();
    let container = deployment["spec"]["template"]["spec"]["containers"][0].clone();
    let planned = Planned {
        configuration: config_map["data"][CONFIG_FILE].as_str().unwrap().to_owned(),
        secrets: Vec::new(),
        container: serde_json::from_value(container).unwrap(),
    };
    let pod = cluster.start(planned);
    pod.until_ready().await;
    // The controllers of Kubernetes write it.
    let mut deployment = find("apps", "deployments").unwrap();
    deployment["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    deployment["status"] = json!({"replicas": 1, "readyReplicas": 1});
    cluster.server.put_status(&deployment).unwrap();
    pod
}

/// Waits until the columns are these.
async fn wait_columns(cluster: &Kubernetes, pod: &Pod, expected: [&str; 3]) {
    let shown = || {
        let columns = columns(cluster);
        let column = |name: &str| columns.iter().find(|one| one.0 == name).unwrap().1.clone();
        ["Phase", "Backends", "Ready"].map(column)
    };
    pod.until_or(async || shown() == expected, || format!("{:#}", cluster.status())).await;
    let columns = columns(cluster);
    let url = columns.iter().find(|(name, _)| name == "URL").unwrap();
    assert!(url.1.starts_with("http://vmcp-a.team.svc"), "{url:?}");
}

#[tokio::test]
async fn phase_follows_backends_of_pod() {
    let [mut one, other] = [["x"], ["y"]].map(|tools| McpBackend::stateless(&tools));
    let cluster = Kubernetes::bare("together", &handling(FAST)).await;
    cluster.member("MCPServer", "one", &one.url());
    cluster.member("MCPServer", "other", &other.url());
    let operator =
        Operator::new(Settings::new("example.com/vmcp:1"), Environment::system().unwrap());
    let client = Client::new(cluster.server.clone(), "default");
    let (stop, stopped) = oneshot::channel::<()>();
    let operator = tokio::spawn(operator.run(client, async { drop(stopped.await) }));
    let pod = start_pod(&cluster).await;
    wait_columns(&cluster, &pod, ["Ready", "2", "True"]).await;
    assert_eq!(cluster.backend("one")["status"], "ready");
    one.stop();
    wait_columns(&cluster, &pod, ["Degraded", "1", "False"]).await;
    let status = cluster.status();
    assert_eq!(cluster.backend("one")["status"], "unavailable");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("one") && !message.contains("other"), "{message}");
    assert_eq!(cluster.condition("BackendsReady")["reason"], "SomeBackendsUnhealthy");
    one.restart();
    wait_columns(&cluster, &pod, ["Ready", "2", "True"]).await;
    pod.stop().await;
    cluster.check_least_role();
    stop.send(()).unwrap();
    operator.await.unwrap().unwrap();
}
