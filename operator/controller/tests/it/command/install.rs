//! `vmcp-operator install`.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use vmcp_kube_fixture::{ApiServer, kubeconfig};

use super::{directory, documents, run};

fn install(arguments: &[&str]) -> Vec<Value> {
    let output = run(&[&["install", "--print"], arguments].concat(), "");
    assert_eq!(output.code, 0, "{}", output.stderr);
    documents(&output.stdout)
}

/// Returns kind, namespace and name of each object but the definitions.
fn names(objects: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let own = objects.iter().filter(|object| object["kind"] != "CustomResourceDefinition");
    own.map(|object| {
        let metadata = &object["metadata"];
        let parts = [&object["kind"], &metadata["namespace"], &metadata["name"]];
        parts.map(text).join(" ")
    })
    .collect()
}

#[test]
fn objects_come_in_order_of_their_use() {
    let objects = install(&[]);
    let definitions = objects.iter().take_while(|one| one["kind"] == "CustomResourceDefinition");
    assert_eq!(definitions.count(), vmcp_api::definitions().len());
    let names = names(&objects);
    assert_eq!(
        (&*names[0], &*names[1], &*names[2], &*names[3]),
        (
            "Namespace - vmcp-system",
            "ServiceAccount vmcp-system vmcp-operator",
            "Service vmcp-system vmcp-operator-webhook",
            "ClusterRole - vmcp-system:vmcp-operator",
        )
    );
    assert!(names.contains(&"ClusterRoleBinding - vmcp-system:vmcp-operator".to_owned()));
    assert!(names.contains(&"RoleBinding vmcp-system vmcp-operator-leader".to_owned()));
    assert_eq!(names.last().unwrap(), "Deployment vmcp-system vmcp-operator");
}

#[test]
fn options_choose_namespaces_and_images() {
    let arguments = ["--namespace=ops", "--watch-namespace=a,b", "--image=i", "--server-image=s"];
    let objects = install(&arguments);
    let names = names(&objects);
    for expected in
        ["Namespace - ops", "RoleBinding a ops:vmcp-operator", "RoleBinding b ops:vmcp-operator"]
    {
        assert!(names.contains(&expected.to_owned()), "{expected}: {names:?}");
    }
    assert!(!names.contains(&"ClusterRoleBinding - ops:vmcp-operator".to_owned()));
    let container = &objects.last().unwrap()["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "i");
    let variable = |name: &str| {
        let variables = container["env"].as_array().unwrap();
        variables.iter().find(|variable| variable["name"] == name).unwrap()["value"].clone()
    };
    assert_eq!(variable("VMCP_IMAGE"), "s");
    assert_eq!(variable("WATCH_NAMESPACE"), "a,b");
    // Bindings refer to roles and accounts that are there.
    for binding in objects.iter().filter(|object| object["roleRef"].is_object()) {
        let role = objects.iter().find(|object| {
            object["kind"] == binding["roleRef"]["kind"]
                && object["metadata"]["name"] == binding["roleRef"]["name"]
        });
        assert!(role.is_some(), "{binding}");
        assert_eq!(binding["subjects"][0]["namespace"], "ops");
    }
}

#[test]
fn usage_errors_name_remedy() {
    for (arguments, expected) in [
        (&["install"][..], "--print"),
        (&["install", "--print", "--namespace=A_b"], "must be the name of a namespace"),
        (&["install", "--print", "--watch-namespace=a,-b"], "must be the name of a namespace"),
    ] {
        let output = run(arguments, "");
        assert_eq!(output.code, 2);
        assert!(output.stderr.contains(expected), "{}", output.stderr);
    }
}

/// Without the program, the test says so and passes.
#[tokio::test]
async fn kubectl_applies_printed_manifests() {
    if Command::new("kubectl").args(["version", "--client"]).output().await.is_err() {
        eprintln!("kubectl is not installed: skipped");
        return;
    }
    let server = ApiServer::new();
    let config = directory("kubectl").join("config");
    std::fs::write(&config, kubeconfig(server.serve().await.unwrap())).unwrap();
    let manifests = run(&["install", "--print"], "").stdout;
    let apply = async || {
        let mut child = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(&config)
            .args(["apply", "--server-side", "-f", "-"])
            .env("HOME", config.parent().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(manifests.as_bytes()).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        String::from_utf8(output.stdout).unwrap()
    };
    let applied = apply().await;
    assert_eq!(applied.lines().count(), documents(&manifests).len(), "{applied}");
    // Applied again, with what the server added.
    assert_eq!(apply().await, applied);
    let deployment = server.get("apps", "deployments", "vmcp-system", "vmcp-operator").unwrap();
    assert_eq!(deployment["spec"]["replicas"], 1);
}
