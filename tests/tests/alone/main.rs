//! Each crate below `layers/` is usable on its own: it builds with its own features only, independent of feature
//! unification in the workspace, and its public API exposes no crate that its user would not have anyway.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod exposed;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use self::exposed::exposed;

/// Crates that every layer may expose: the standard library and the base crates of Rust HTTP services.
const COMMON: &[&str] = &[
    "core",
    "alloc",
    "std",
    "bytes",
    "http",
    "http_body",
    "tower_layer",
    "tower_service",
    // Appears in a bound of projected types, which users cannot name.
    "pin_project_lite",
];

/// Further crates that a layer may expose because they are its purpose.
const PURPOSE: &[(&str, &[&str], &str)] = &[
    ("vmcp-core", &["secrecy", "serde_json"], "tokens are secrets, claims are JSON"),
    ("vmcp-jwt", &["serde_core", "serde_json"], "keys and claims are JSON"),
    ("vmcp-oauth-client", &["secrecy", "serde_json"], "clients have secrets, responses are JSON"),
    ("vmcp-token-exchange", &["secrecy"], "tokens are secrets"),
    ("vmcp-header-injection", &["secrecy"], "credentials are secrets"),
    ("vmcp-aws-sts", &["secrecy"], "credentials are secrets"),
    ("vmcp-decode", &["http_body_util"], "hands inward a body that was read whole"),
    (
        "vmcp-telemetry",
        &["http_body_util", "opentelemetry"],
        "records through its API, and writes into a body that was read whole",
    ),
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["--locked", "--quiet"]);
    cargo
}

fn metadata() -> Value {
    let mut cargo = cargo();
    let output = cargo.args(["metadata", "--format-version", "1", "--no-deps"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the packages below `layers/` with their features.
fn layers(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let is_layer = |package: &&Value| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        manifest.ancestors().nth(2).is_some_and(|folder| folder.ends_with("layers"))
    };
    let packages = metadata["packages"].as_array().unwrap().iter().filter(is_layer);
    let features =
        |package: &Value| package["features"].as_object().unwrap().keys().cloned().collect();
    packages
        .map(|package| (package["name"].as_str().unwrap().to_owned(), features(package)))
        .collect()
}

/// Runs a command and returns its output if it fails.
fn said_in_failure(command: &mut Command) -> Option<String> {
    let output = command.output().unwrap();
    let failed = !output.status.success();
    failed.then(|| format!("{command:?}\n{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn each_layer_builds_alone_with_each_feature() {
    let layers = layers(&metadata());
    assert!(layers.len() > 10, "{layers:?}");
    let mut failures = Vec::new();
    for (package, features) in layers {
        let mut check = |features: &[&str]| {
            let mut cargo = cargo();
            cargo.args(["check", "-p", &package]).args(features);
            failures.extend(said_in_failure(&mut cargo));
        };
        if features.is_empty() {
            check(&[]);
            continue;
        }
        check(&["--no-default-features"]);
        check(&["--all-features"]);
        for feature in features {
            check(&["--no-default-features", "--features", &feature]);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns rustdoc's JSON for a package with all features.
fn documented(package: &str, metadata: &Value) -> Value {
    let target = PathBuf::from(metadata["target_directory"].as_str().unwrap());
    // The JSON format is unstable: the wrapper enables it for this run of rustdoc only, so that cargo rebuilds nothing.
    let wrapper = root().join("tests/tools/rustdoc-json");
    let mut cargo = cargo();
    cargo.env("RUSTDOC", fs::canonicalize(wrapper).unwrap());
    cargo.args(["rustdoc", "-p", package, "--lib", "--all-features", "--"]);
    cargo.args(["-Z", "unstable-options", "--output-format", "json"]);
    assert_eq!(said_in_failure(&mut cargo), None);
    let file = target.join("doc").join(format!("{}.json", package.replace('-', "_")));
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// Returns the type in `NAME in ITEM`.
fn type_of(shown: &str) -> &str {
    shown.split(' ').next().unwrap_or(shown)
}

/// Returns `true` if the package depends on `tower-layer`.
fn is_layer(metadata: &Value, package: &str) -> bool {
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|known| known["name"] == package).unwrap();
    let mut dependencies = package["dependencies"].as_array().unwrap().iter();
    dependencies
        .any(|dependency| dependency["name"] == "tower-layer" && dependency["kind"].is_null())
}

/// Returns the names that the documented crate re-exports.
fn reexported(documented: &Value) -> BTreeSet<String> {
    let items = documented["index"].as_object().unwrap().values();
    let names = items.filter_map(|item| item["inner"]["use"]["name"].as_str());
    names.map(ToOwned::to_owned).collect()
}

#[test]
fn layers_expose_no_foreign_types() {
    let metadata = metadata();
    let mut broken = Vec::new();
    for package in layers(&metadata).keys() {
        let purpose = PURPOSE.iter().filter(|(of, ..)| of == package);
        let allowed: BTreeSet<&str> =
            COMMON.iter().chain(purpose.flat_map(|(_, crates, _)| *crates)).copied().collect();
        let documentation = documented(package, &metadata);
        let shown = exposed(&documentation);
        // Of the workspace's crates, only those that its row in the dependency table allows.
        let foreign = shown.iter().filter(|(of, _)| !of.starts_with("vmcp_"));
        for (of, types) in foreign.filter(|(of, _)| !allowed.contains(of.as_str())) {
            broken.push(format!("{package} shows of {of}: {types:?}"));
        }
        let exported = reexported(&documentation);
        let own = shown.get("vmcp_core").into_iter().flatten();
        for shown in
            own.filter(|shown| is_layer(&metadata, package) && !exported.contains(type_of(shown)))
        {
            broken.push(format!("{package} shows and does not re-export of vmcp_core: {shown}"));
        }
        let unseen = |of: &&&str| !shown.contains_key(**of);
        for (_, crates, _) in PURPOSE.iter().filter(|(of, ..)| of == package) {
            broken
                .extend(crates.iter().filter(unseen).map(|of| format!("{package} needs no {of}")));
        }
    }
    assert!(
        broken.is_empty(),
        "what a crate shows becomes its user's dependency:\n{}",
        broken.join("\n")
    );
}
