//! Charts, and objects of manifests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use vmcp_tests::counterparts::{Helm, Release, TestError, skipped};

/// Names of the charts.
pub(crate) const CHARTS: [&str; 3] = ["vmcp-crds", "vmcp-operator", "vmcp"];

/// Release of the tests. The name of the chart is not part of it.
pub(crate) const RELEASE: Release<'_> = Release { name: "main", namespace: "team" };

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn chart(name: &str) -> PathBuf {
    root().join("operator/charts").join(name)
}

/// Returns Helm, unless the tests with counterparts are to be skipped, or the machine has none.
pub(crate) async fn helm() -> Option<Helm> {
    if skipped() { None } else { Helm::find().await.unwrap() }
}

/// Returns the documents of manifests that have content. Whole numbers are integers, as for the API server.
pub(crate) fn objects(yaml: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    documents.into_iter().filter(|document| !document.is_null()).map(with_integers).collect()
}

fn with_integers(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(with_integers).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (name, with_integers(value))).collect()
        }
        Value::Number(number) => {
            let text = number.to_string();
            text.strip_suffix(".0")
                .and_then(|whole| whole.parse::<i64>().ok())
                .map_or(number.into(), Value::from)
        }
        other => other,
    }
}

/// Renders a chart with the release of the tests.
pub(crate) async fn render(
    helm: &Helm,
    name: &str,
    values: &Value,
) -> Result<Vec<Value>, TestError> {
    Ok(objects(&helm.template(&chart(name), RELEASE, values).await?))
}

/// Returns the only object of a kind with this name.
pub(crate) fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found: Vec<_> = objects
        .iter()
        .filter(|object| object["kind"] == kind && object["metadata"]["name"] == name)
        .collect();
    let [object] = found[..] else { panic!("{} objects are {kind} {name}", found.len()) };
    object
}

/// Returns kind, namespace and name of each object.
pub(crate) fn names(objects: &[Value]) -> BTreeSet<String> {
    let name = |object: &Value| {
        let metadata = &object["metadata"];
        format!("{} {} {}", object["kind"], metadata["namespace"], metadata["name"])
    };
    objects.iter().map(name).collect()
}

/// Returns the container of a Deployment.
pub(crate) fn container(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"][0]
}

/// Returns the arguments of a container.
pub(crate) fn arguments(container: &Value) -> Vec<String> {
    let arguments = container["args"].as_array().unwrap().iter();
    arguments.map(|argument| argument.as_str().unwrap().to_owned()).collect()
}
