//! The objects that the operator generates, against the schemas of Kubernetes' releases.

use std::fs;
use std::path::{Path, PathBuf};

use vmcp_tests::counterparts::{skipped, validate_manifests};

/// The oldest and the newest release that generated objects have to suit.
const RELEASES: [&str; 2] = ["1.33", "1.37"];

fn snapshots() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../operator/controller/tests/it");
    let folders = ["plan/snapshots", "plan/embedding", "command/rendered", "webhook/objects"];
    let files = folders.map(|name| fs::read_dir(folder.join(name)).unwrap());
    files.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// Returns whether an object is of a kind that the validator knows. It skips those of other projects.
fn is_of_kubernetes(object: &str) -> bool {
    let others = ["apiVersion: gateway.networking.k8s.io/", "apiVersion: monitoring.coreos.com/"];
    !others.iter().any(|group| object.starts_with(group))
}

#[tokio::test]
async fn generated_objects_suit_all_supported_releases() {
    if skipped() {
        return;
    }
    let files = snapshots();
    let mut expected = 0;
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        expected += text.split("---\n").skip(1).filter(|object| is_of_kubernetes(object)).count();
    }
    for release in RELEASES {
        let objects = validate_manifests(release, &files).await.unwrap();
        let passed = objects.iter().filter(|line| line.contains(" passed "));
        assert_eq!(passed.count(), expected, "{objects:?}");
    }
}

#[tokio::test]
async fn validator_refuses_unknown_fields() {
    if skipped() {
        return;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unknown-field.yaml");
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: 1}\n";
    fs::write(&file, service).unwrap();
    let error = validate_manifests(RELEASES[0], &[file]).await.unwrap_err();
    assert!(error.to_string().contains("port"), "{error}");
}
