//! Bills of materials, against `cargo metadata`, `Cargo.lock` and the schema of CycloneDX.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::process::Command;
use vmcp_tests::counterparts::{skipped, validate_bills};

use super::support::root;

/// Programs of the images.
const PROGRAMS: [&str; 2] = ["vmcp", "vmcp-operator"];

/// Name and version of a crate.
type Crate = (String, String);

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn name(package: &Value) -> Crate {
    (text(&package["name"]), text(&package["version"]))
}

async fn output(command: &mut Command) -> String {
    let output =
        command.current_dir(root()).env("CARGO_NET_OFFLINE", "true").output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Writes the bills of the images into a directory of a test.
async fn bills(test: &str) -> Vec<(PathBuf, Value)> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bills").join(test);
    let mut command = Command::new("bash");
    output(command.args(["tests/tools/image/images.sh", "bills"]).arg(&folder)).await;
    let read = |program| {
        let file = folder.join(format!("{program}.cdx.json"));
        let bill = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        (file, bill)
    };
    PROGRAMS.map(read).into()
}

/// Returns the components of a bill, with the program itself.
fn components(bill: &Value) -> Vec<&Value> {
    let root = &bill["metadata"]["component"];
    [root].into_iter().chain(bill["components"].as_array().unwrap()).collect()
}

/// Returns the crates that each component depends on, by its package URL.
fn dependencies(bill: &Value) -> BTreeMap<Crate, BTreeSet<Crate>> {
    let all = components(bill);
    let names: BTreeMap<_, _> = all.iter().map(|one| (text(&one["bom-ref"]), name(one))).collect();
    let entry = |entry: &Value| {
        let on = entry["dependsOn"].as_array().unwrap().iter();
        let on = on.map(|one| names[one.as_str().unwrap()].clone()).collect();
        (names[entry["ref"].as_str().unwrap()].clone(), on)
    };
    bill["dependencies"].as_array().unwrap().iter().map(entry).collect()
}

/// Returns the crates that each package links, as `cargo metadata` has them.
fn linked(metadata: &Value) -> BTreeMap<Crate, BTreeSet<Crate>> {
    let packages = metadata["packages"].as_array().unwrap();
    let names: BTreeMap<_, _> = packages.iter().map(|one| (text(&one["id"]), name(one))).collect();
    let is_normal = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array().unwrap();
        kinds.iter().any(|kind| kind["kind"].is_null())
    };
    let node = |node: &Value| {
        let on = node["deps"].as_array().unwrap().iter().filter(is_normal);
        let on = on.map(|one| names[one["pkg"].as_str().unwrap()].clone()).collect();
        (names[node["id"].as_str().unwrap()].clone(), on)
    };
    metadata["resolve"]["nodes"].as_array().unwrap().iter().map(node).collect()
}

#[tokio::test]
async fn bills_agree_with_cargo_metadata() {
    let bills = bills("metadata").await;
    let target = bills[0].1["metadata"]["properties"][0]["value"].as_str().unwrap();
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--format-version", "1", "--filter-platform", target]);
    let metadata: Value = serde_json::from_str(&output(&mut command).await).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let known: BTreeMap<_, _> = packages.iter().map(|package| (name(package), package)).collect();
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let linked = linked(&metadata);
    for (_, bill) in &bills {
        let all = components(bill);
        let names: BTreeSet<_> = all.iter().map(|component| name(component)).collect();
        assert_eq!(names.len(), all.len(), "no crate is listed twice");
        for component in all {
            let of = name(component);
            let package = known[&of];
            let license = text(&component["licenses"][0]["expression"]);
            let words = |text: &str| text.replace(" OR ", "/").replace(' ', "");
            assert_eq!(words(&license), words(package["license"].as_str().unwrap()), "{of:?}");
            let repository = &component["externalReferences"][0]["url"];
            assert_eq!(repository, &package["repository"], "{of:?}");
            match &component["hashes"][0]["content"] {
                // Crates of the workspace have no archive.
                Value::Null => assert!(package["source"].is_null(), "{of:?}"),
                digest => assert!(lock.contains(&format!("checksum = {digest}")), "{of:?}"),
            }
        }
        // Each crate of the program, and nothing else, is reached over the dependencies of the bill.
        let dependencies = dependencies(bill);
        let mut reached = BTreeSet::new();
        let mut next = vec![name(&bill["metadata"]["component"])];
        while let Some(one) = next.pop() {
            if reached.insert(one.clone()) {
                next.extend(dependencies[&one].iter().cloned());
            }
        }
        assert_eq!(reached, names);
        for (of, on) in &dependencies {
            let expected: BTreeSet<_> = linked[of].intersection(&names).cloned().collect();
            assert_eq!(on, &expected, "{of:?}");
        }
    }
}

#[tokio::test]
async fn bills_have_crates_of_images() {
    let all = ["rustls", "aws-lc-rs", "kube", "tokio", "vmcp-api"];
    // `cargo metadata` reaches these over features that the programs do not have, or for tests alone.
    let none = ["ring", "vmcp-kube-fixture", "vmcp-test-support", "vmcp-demo"];
    let own = [["vmcp-server", "vmcp-discover"], ["rcgen", "vmcp-strategic-merge"]];
    for ((file, bill), own) in bills("crates").await.iter().zip(own) {
        let listed: BTreeSet<_> = components(bill).iter().map(|one| name(one).0).collect();
        for used in all.iter().chain(&own) {
            assert!(listed.contains(*used), "{}: {used}", file.display());
        }
        for unused in none {
            assert!(!listed.contains(unused), "{}: {unused}", file.display());
        }
    }
}

#[tokio::test]
async fn bills_suit_schema_of_cyclonedx() {
    if skipped() {
        return;
    }
    let files: Vec<_> = bills("schema").await.into_iter().map(|(file, _)| file).collect();
    validate_bills(&files).await.unwrap();
    let mut broken: Value = serde_json::from_str(&fs::read_to_string(&files[0]).unwrap()).unwrap();
    broken["components"][0]["type"] = "crate".into();
    fs::write(&files[0], broken.to_string()).unwrap();
    assert!(validate_bills(&files).await.unwrap_err().to_string().contains("crate"));
}
