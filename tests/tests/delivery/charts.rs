//! Rendered charts, against the schemas of Kubernetes' releases and of the projects whose kinds they use.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use vmcp_structural_schema::Schema;
use vmcp_tests::counterparts::{Release, definition, validate_manifests};

use super::cases;
use super::support::{CHARTS, RELEASE, chart, helm, objects, render, root};

/// The oldest and the newest supported release of Kubernetes.
const RELEASES: [&str; 2] = ["1.33", "1.37"];

/// Kinds of other projects: module and file of the definition.
const FOREIGN: [(&str, &str, &str); 2] = [
    (
        "HTTPRoute",
        "sigs.k8s.io/gateway-api",
        "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
    ),
    (
        "ServiceMonitor",
        "github.com/prometheus-operator/prometheus-operator",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
];

fn is_foreign(object: &Value) -> bool {
    FOREIGN.iter().any(|(kind, ..)| object["kind"] == *kind)
}

/// Writes objects into a file of a directory of this test program.
fn write(name: &str, objects: &[Value]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("charts");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name.replace(' ', "-") + ".yaml");
    let documents = objects.iter().map(|object| format!("---\n{object}\n"));
    fs::write(&file, documents.collect::<String>()).unwrap();
    file
}

#[tokio::test]
async fn charts_pass_lint() {
    let Some(helm) = helm().await else { return };
    for name in CHARTS {
        for (case, values) in cases::of(name) {
            let linted = helm.lint(&chart(name), &values).await;
            linted.unwrap_or_else(|error| panic!("{name}, {case}: {error}"));
        }
    }
}

#[tokio::test]
async fn rendered_objects_suit_all_supported_releases() {
    let Some(helm) = helm().await else { return };
    let mut files = Vec::new();
    let mut count = 0;
    for name in CHARTS {
        for (case, values) in cases::of(name) {
            let rendered = render(&helm, name, &values).await;
            let mut objects = rendered.unwrap_or_else(|error| panic!("{name}, {case}: {error}"));
            objects.retain(|object| !is_foreign(object));
            count += objects.len();
            files.push(write(&format!("{name}-{case}"), &objects));
        }
    }
    for release in RELEASES {
        let lines = validate_manifests(release, &files).await.unwrap();
        assert_eq!(lines.iter().filter(|line| line.contains(" passed ")).count(), count);
    }
}

#[tokio::test]
async fn objects_of_other_projects_suit_definitions() {
    let Some(helm) = helm().await else { return };
    for (kind, module, file) in FOREIGN {
        let Some(text) = definition(module, file).await.unwrap() else { return };
        let definition: Value = serde_saphyr::from_str(&text).unwrap();
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let version = versions.iter().find(|version| version["name"] == "v1").unwrap();
        let schema = Schema::from_value(&version["schema"]["openAPIV3Schema"]).unwrap();
        let mut count = 0;
        for name in CHARTS {
            for (case, values) in cases::of(name) {
                for mut object in render(&helm, name, &values).await.unwrap() {
                    if object["kind"] == kind {
                        count += 1;
                        assert_eq!(schema.prune(&mut object), [""; 0], "{name}, {case}");
                        schema.apply_defaults(&mut object);
                        let errors = schema.validate(&object, None);
                        assert!(errors.is_empty(), "{name}, {case}: {errors:?}");
                    }
                }
            }
        }
        assert!(count > 0, "no chart has a {kind}");
    }
}

#[tokio::test]
async fn every_object_has_namespace_and_labels() {
    let Some(helm) = helm().await else { return };
    let cluster = ["ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"];
    for name in CHARTS {
        for (case, values) in cases::of(name) {
            for object in render(&helm, name, &values).await.unwrap() {
                let kind = object["kind"].as_str().unwrap();
                let metadata = &object["metadata"];
                let of = format!("{name}, {case}: {kind} {}", metadata["name"]);
                assert_eq!(metadata["namespace"].is_null(), cluster.contains(&kind), "{of}");
                assert_eq!(metadata["labels"]["app.kubernetes.io/part-of"], "vmcp", "{of}");
                assert_eq!(metadata["labels"]["app.kubernetes.io/instance"], RELEASE.name, "{of}");
            }
        }
    }
}

#[tokio::test]
async fn names_that_look_like_numbers_are_text() {
    let Some(helm) = helm().await else { return };
    let release = Release { name: "123", namespace: "1e3" };
    for name in ["vmcp-operator", "vmcp"] {
        let values = json!({"fullnameOverride": "0"});
        let rendered = objects(&helm.template(&chart(name), release, &values).await.unwrap());
        for metadata in rendered.iter().map(|object| &object["metadata"]) {
            assert!(metadata["name"].is_string(), "{metadata}");
            let namespace = &metadata["namespace"];
            assert!(namespace.is_null() || namespace == "1e3", "{metadata}");
            assert_eq!(metadata["labels"]["app.kubernetes.io/instance"], "123");
        }
    }
}

#[tokio::test]
async fn notes_name_objects_of_release() {
    let Some(helm) = helm().await else { return };
    for name in CHARTS {
        for (case, values) in cases::of(name) {
            let notes = helm.notes(&chart(name), RELEASE, &values).await;
            let notes = notes.unwrap_or_else(|error| panic!("{name}, {case}: {error}"));
            let rendered = render(&helm, name, &values).await.unwrap();
            // As in `kubectl rollout status deployment/NAME`.
            for (kind, prefix) in [("Deployment", "deployment/"), ("Service", "service/")] {
                for named in notes.split(prefix).skip(1) {
                    let named = named.split(' ').next().unwrap();
                    let is_there = rendered
                        .iter()
                        .any(|one| one["kind"] == kind && one["metadata"]["name"] == named);
                    assert!(is_there, "{name}, {case}: {notes}");
                }
            }
            let is_named = name == "vmcp-crds" || notes.contains("kubectl rollout status");
            assert!(is_named, "{name}, {case}: {notes}");
        }
    }
}

#[tokio::test]
async fn charts_have_version_of_workspace() {
    let version = env!("CARGO_PKG_VERSION");
    for name in CHARTS {
        let text = fs::read_to_string(chart(name).join("Chart.yaml")).unwrap();
        let chart: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!((&chart["version"], &chart["appVersion"]), (&version.into(), &version.into()));
    }
}

#[tokio::test]
async fn packages_render_as_directories() {
    let Some(helm) = helm().await else { return };
    // The directory has links, the package files.
    for name in CHARTS {
        let package = helm.package(&chart(name)).await.unwrap();
        let values = json!({"sealKey": {"existingSecret": "ring"}});
        let values = if name == "vmcp" { values } else { json!({}) };
        let packed = helm.template(&package, RELEASE, &values).await.unwrap();
        assert!(objects(&packed) == render(&helm, name, &values).await.unwrap(), "{name}");
    }
}

#[tokio::test]
async fn definitions_are_left_out_on_request() {
    let Some(helm) = helm().await else { return };
    let values = json!({"install": false});
    let rendered = render(&helm, "vmcp-crds", &values).await.unwrap();
    assert!(rendered.is_empty(), "{rendered:?}");
    let notes = helm.notes(&chart("vmcp-crds"), RELEASE, &values).await.unwrap();
    assert!(notes.contains("no custom resource definitions"), "{notes}");
}

#[tokio::test]
async fn packaged_definitions_are_generated_ones() {
    let Some(helm) = helm().await else { return };
    // Not the directory: a package has no links.
    let package = helm.package(&chart("vmcp-crds")).await.unwrap();
    for keep in [true, false] {
        let rendered = helm.template(&package, RELEASE, &json!({"keep": keep})).await.unwrap();
        let mut rendered = objects(&rendered);
        for definition in &mut rendered {
            let metadata = definition["metadata"].as_object_mut().unwrap();
            assert!(metadata.remove("labels").is_some());
            let kept = metadata.remove("annotations").unwrap_or_default();
            assert_eq!(kept["helm.sh/resource-policy"] == "keep", keep);
        }
        let entries = fs::read_dir(root().join("operator/crds")).unwrap();
        let texts = entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
        let mut generated: Vec<Value> = texts.flat_map(|text| objects(&text)).collect();
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        generated.sort_by_key(name);
        rendered.sort_by_key(name);
        assert!(rendered == generated, "the chart has the definitions of operator/crds");
    }
}
