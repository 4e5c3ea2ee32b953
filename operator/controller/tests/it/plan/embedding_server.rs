//! Generated objects of an embedding server.

use std::collections::BTreeMap;

use vmcp_api::EmbeddingServer;
use vmcp_operator::plan::{EmbeddingPlan, plan_embedding_server};

use super::snapshots::{check_files, to_yaml};
use super::*;

/// Plans an embedding server of the namespace `team`.
fn planned(spec: &Value, settings: &Settings) -> Result<EmbeddingPlan, PlanError> {
    let object = json!({
        "apiVersion": "vmcp.dev/v1beta1",
        "kind": "EmbeddingServer",
        "metadata": {"name": "embed", "namespace": "team", "uid": "0d0c0a11-0000-4000-8000-000000000002"},
        "spec": spec,
    });
    let server: EmbeddingServer = serde_json::from_value(object).unwrap();
    plan_embedding_server(&server, settings)
}

/// Returns a spec with each field.
fn full() -> Value {
    let metadata = |name: &str| json!({"annotations": {name: "annotation"}, "labels": {name: "label", "app.kubernetes.io/name": "mine"}});
    let mut stateful_set = metadata("set");
    stateful_set["podTemplateMetadataOverrides"] = metadata("pod");
    json!({
        "model": "acme/$(embeddings)",
        "hfTokenSecretRef": {"name": "hub", "key": "token"},
        "image": "registry.example.com/tei:1",
        "imagePullPolicy": "Always",
        "port": 9000,
        "args": ["--auto-truncate"],
        "env": [{"name": "RUST_LOG", "value": "$(x)"}, {"name": "HF_HOME", "value": "/models"}],
        "resources": {"limits": {"memory": "4Gi"}, "requests": {"cpu": "500m", "memory": "2Gi"}},
        "modelCache": {"enabled": true, "storageClassName": "fast", "size": "20Gi", "accessMode": "ReadWriteMany"},
        "resourceOverrides": {"statefulSet": stateful_set, "service": metadata("service"), "persistentVolumeClaim": metadata("claim")},
        "replicas": 2,
    })
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"team": "search", "app.kubernetes.io/instance": "mine"}},
        "spec": {
            "nodeSelector": {"gpu": "true"},
            "imagePullSecrets": [{"name": "own"}],
            "containers": [
                {"name": "embedding", "resources": {"limits": {"nvidia.com/gpu": 1}}},
                {"name": "proxy", "image": "proxy"},
            ],
        },
    })
}

#[test]
fn generated_objects_match_snapshots() {
    let openshift = Settings {
        is_openshift: true,
        image_pull_secrets: vec!["registry".to_owned()],
        ..settings()
    };
    let cases = [
        ("minimal", json!({}), settings()),
        ("full", full(), settings()),
        ("cache-disabled", json!({"modelCache": {"enabled": false}}), settings()),
        ("pod-template", json!({"podTemplateSpec": template()}), openshift),
    ];
    let files = cases.map(|(name, spec, settings)| {
        let EmbeddingPlan { stateful_set, service } = planned(&spec, &settings).unwrap();
        let objects =
            [serde_json::to_value(stateful_set).unwrap(), serde_json::to_value(service).unwrap()];
        (format!("{name}.yaml"), to_yaml(&objects))
    });
    check_files("embedding", &BTreeMap::from(files));
}

#[test]
fn errors_name_the_field() {
    let container =
        |container: Value| json!({"podTemplateSpec": {"spec": {"containers": [container]}}});
    for (spec, path) in [
        (json!({"args": ["--auto-truncate", "--port=1"]}), "spec.args[1]"),
        (json!({"args": ["--model-id", "other"]}), "spec.args[0]"),
        (
            json!({"podTemplateSpec": {"spec": {"container": []}}}),
            "spec.podTemplateSpec.spec.container",
        ),
        (
            json!({"podTemplateSpec": {"spec": {"restartPolicy": "Never"}}}),
            "spec.podTemplateSpec.spec.restartPolicy",
        ),
        (
            container(json!({"name": "embedding", "args": ["--auto-truncate"]})),
            "spec.podTemplateSpec.spec.containers[0].args",
        ),
        (
            container(json!({"name": "embedding", "$patch": "delete"})),
            "spec.podTemplateSpec.spec.containers",
        ),
    ] {
        assert_eq!(planned(&spec, &settings()).unwrap_err().path, path, "{spec}");
    }
}

#[test]
fn each_field_changes_the_objects() {
    let mut spec = full();
    spec["podTemplateSpec"] = template();
    let before = planned(&spec, &settings()).unwrap();
    let mut found = Vec::new();
    leaves(&spec, "", &mut found);
    for pointer in &found {
        // Labels that select pods are not a user's.
        if pointer.ends_with("app.kubernetes.io~1name")
            || pointer.ends_with("app.kubernetes.io~1instance")
        {
            continue;
        }
        let mut changed = spec.clone();
        let value = changed.pointer_mut(pointer).unwrap();
        *value = match (pointer.as_str(), value.clone()) {
            ("/imagePullPolicy", _) => "Never".into(),
            ("/modelCache/accessMode", _) => "ReadOnlyMany".into(),
            (_, Value::Bool(value)) => (!value).into(),
            (_, Value::Number(value)) => (value.as_i64().unwrap() + 1).into(),
            (_, Value::String(value)) => format!("{value}1").into(),
            (_, other) => panic!("{pointer}: {other}"),
        };
        assert_ne!(planned(&changed, &settings()).unwrap(), before, "{pointer}");
    }
    assert!(found.len() > 35, "{found:?}");
}
