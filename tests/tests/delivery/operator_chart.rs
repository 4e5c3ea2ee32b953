//! Chart of the operator: its scope, its agreement with the program.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::process::Command;
use vmcp_tests::counterparts::{Release, operator_program};

use super::cases;
use super::support::{arguments, chart, container, find, helm, names, objects, render, root};

/// Runs the operator's program and returns its output.
async fn run(arguments: &[&str]) -> String {
    let program = operator_program().await.unwrap();
    let output = Command::new(program).args(arguments).env_clear().output().await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Removes all labels of objects and of pods but those of selectors, and sorts the variables of containers.
fn without_labels(mut object: Value) -> Value {
    for path in ["", "/spec/template"] {
        if let Some(Value::Object(metadata)) = object.pointer_mut(&format!("{path}/metadata")) {
            metadata.remove("labels");
        }
    }
    if let Some(Value::Array(variables)) =
        object.pointer_mut("/spec/template/spec/containers/0/env")
    {
        variables.sort_by_key(|variable| variable["name"].to_string());
    }
    object
}

fn sorted(objects: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut objects: Vec<_> = objects.into_iter().map(without_labels).collect();
    objects.sort_by_key(|object| names(std::slice::from_ref(object)));
    objects
}

#[tokio::test]
async fn chart_and_printed_manifests_are_equal() {
    let Some(helm) = helm().await else { return };
    let namespaced = json!({"rbac": {"scope": "namespace", "allowedNamespaces": ["a", "b"]}});
    for (values, option) in [(json!({}), None), (namespaced, Some("--watch-namespace=a,b"))] {
        let release = Release { name: "vmcp-operator", namespace: "vmcp-system" };
        let mut rendered = Vec::new();
        for (name, values) in [("vmcp-crds", &json!({"keep": false})), ("vmcp-operator", &values)] {
            let text = helm.template(&chart(name), release, values).await.unwrap();
            rendered.extend(objects(&text));
        }
        let arguments: Vec<_> = ["install", "--print"].into_iter().chain(option).collect();
        let printed = run(&arguments).await;
        // Helm creates the namespace of a release.
        let own = objects(&printed).into_iter().filter(|one| one["kind"] != "Namespace");
        let (rendered, printed) = (sorted(rendered), sorted(own));
        assert_eq!(names(&rendered), names(&printed));
        for (left, right) in rendered.iter().zip(&printed) {
            assert_eq!(left, right);
        }
    }
}

#[tokio::test]
async fn program_accepts_arguments_of_chart() {
    let Some(helm) = helm().await else { return };
    for (case, values) in cases::of("vmcp-operator") {
        let objects = render(&helm, "vmcp-operator", &values).await.unwrap();
        let deployment = objects.iter().find(|object| {
            object["kind"] == "Deployment" && container(object)["name"] == "manager"
        });
        let mut arguments = arguments(container(deployment.unwrap()));
        // The arguments in front of it are parsed, and nothing runs.
        arguments.push("--help".to_owned());
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        assert!(run(&arguments).await.contains("Usage"), "{case}");
    }
}

#[tokio::test]
async fn releases_share_no_object() {
    let Some(helm) = helm().await else { return };
    let mut all = BTreeSet::new();
    let mut count = 0;
    for (name, namespace, watched) in
        [("vmcp-operator", "a", "x"), ("vmcp-operator", "b", "y"), ("other", "b", "z")]
    {
        let values = json!({
            "rbac": {"scope": "namespace", "allowedNamespaces": [watched, namespace]},
            "podDisruptionBudget": {"enabled": true}, "serviceMonitor": {"enabled": true},
            "networkPolicy": {"enabled": true}, "autoscaling": {"enabled": true},
            "imageDiscovery": {"enabled": true},
        });
        let release = Release { name, namespace };
        let text = helm.template(&chart("vmcp-operator"), release, &values).await.unwrap();
        let names = names(&objects(&text));
        count += names.len();
        all.extend(names);
        // Nor a Lease: an operator that waited for the one of another scope would never work.
        let lease = text.lines().find(|line| line.contains("--lease=")).unwrap();
        count += usize::from(all.insert(format!("{namespace} {lease}")));
    }
    assert_eq!(all.len(), count, "{all:?}");
}

#[tokio::test]
async fn scope_of_namespaces_binds_no_cluster() {
    let Some(helm) = helm().await else { return };
    let values = json!({"rbac": {"scope": "namespace", "allowedNamespaces": ["x", "y"]}});
    let objects = render(&helm, "vmcp-operator", &values).await.unwrap();
    let bindings: Vec<_> = objects
        .iter()
        .filter(|object| object["roleRef"]["kind"] == "ClusterRole")
        // The configuration of the webhook is in no namespace.
        .filter(|object| !object["roleRef"]["name"].as_str().unwrap().ends_with("-webhook"))
        .map(|binding| (&binding["kind"], &binding["metadata"]["namespace"]))
        .collect();
    assert_eq!(
        bindings,
        [(&json!("RoleBinding"), &json!("x")), (&json!("RoleBinding"), &json!("y"))]
    );
    let deployment = find(&objects, "Deployment", "main-vmcp-operator");
    let variables = container(deployment)["env"].as_array().unwrap();
    let watched = variables.iter().find(|variable| variable["name"] == "WATCH_NAMESPACE");
    assert_eq!(watched.unwrap()["value"], "x,y");
}

#[tokio::test]
async fn redis_of_parent_chart_is_default() {
    let Some(helm) = helm().await else { return };
    let shared = json!({"redis": {"host": "shared", "port": 6380, "existingSecret": "s"}});
    for (own, expected) in [("", "shared:6380"), ("own:6379", "own:6379")] {
        let values = json!({"global": shared, "defaultRedis": {"address": own}});
        let objects = render(&helm, "vmcp-operator", &values).await.unwrap();
        let deployment = find(&objects, "Deployment", "main-vmcp-operator");
        let variables = container(deployment)["env"].as_array().unwrap();
        let address = variables.iter().find(|one| one["name"] == "VMCP_DEFAULT_REDIS_ADDRESS");
        assert_eq!(address.unwrap()["value"], expected);
        // The password of one Redis never goes to another.
        let secret = variables.iter().any(|one| one["name"] == "VMCP_DEFAULT_REDIS_SECRET");
        assert_eq!(secret, own.is_empty());
    }
}

#[tokio::test]
async fn roles_name_objects_of_release() {
    let Some(helm) = helm().await else { return };
    let rendered = render(&helm, "vmcp-operator", &json!({})).await.unwrap();
    let text = std::fs::read_to_string(root().join("operator/deploy/role.yaml")).unwrap();
    let named = |roles: &[Value]| -> Vec<String> {
        let rules = roles.iter().filter_map(|role| role["rules"].as_array()).flatten();
        let names = rules.filter_map(|rule| rule.get("resourceNames")?.as_array()).flatten();
        names.map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let here = |name: String| {
        name.replace("vmcp-operator", "main-vmcp-operator").replace("vmcp-system", "team")
    };
    let expected: BTreeSet<_> = named(&objects(&text)).into_iter().map(here).collect();
    assert_eq!(named(&rendered).into_iter().collect::<BTreeSet<_>>(), expected);
}
