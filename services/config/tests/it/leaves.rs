//! Every field has an effect: `leaves.txt` lists each leaf of the schema with the tests that show its effect, or with
//! the unsupported section that makes `serve` reject the configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use vmcp_config::schema;

const TABLE: &str = include_str!("leaves.txt");

/// The test that shows each refusal.
const REFUSAL: &str = "vmcp::configuration::serve_rejects_sections_without_runtime";

/// Tests that are named before they are written. A name leaves this list with the commit that adds the test.
const PENDING: &[&str] = &[];

/// Sections without a runtime. One that gets a runtime leaves this list, and its leaves get tests.
const REFUSED: &[&str] = &[];

#[derive(Debug)]
enum Entry {
    Refused(&'static str),
    Shown(Vec<&'static str>),
}

fn table() -> BTreeMap<&'static str, Entry> {
    let lines: Vec<&str> = TABLE.lines().filter(|line| !line.starts_with('#')).collect();
    let table: BTreeMap<_, _> = lines
        .iter()
        .map(|line| {
            let (path, what) = line.split_once(" = ").unwrap_or_else(|| panic!("no entry: {line}"));
            let entry = match what.strip_prefix("refused ") {
                Some(section) => Entry::Refused(section),
                None => Entry::Shown(what.split(", ").collect()),
            };
            (path, entry)
        })
        .collect();
    assert_eq!(table.len(), lines.len(), "a leaf is listed twice");
    table
}

#[test]
fn table_lists_every_schema_leaf() {
    let schema = schema();
    let mut leaves = BTreeSet::new();
    walk(&schema, &schema, "", &mut Vec::new(), &mut leaves);
    let listed: BTreeSet<String> = table().into_keys().map(ToOwned::to_owned).collect();
    let missing: Vec<_> = leaves.difference(&listed).collect();
    let stale: Vec<_> = listed.difference(&leaves).collect();
    assert!(missing.is_empty() && stale.is_empty(), "missing: {missing:#?}\nstale: {stale:#?}");
}

#[test]
fn rejected_leaves_belong_to_rejected_sections() {
    let mut sections = BTreeSet::new();
    for (path, entry) in table() {
        let Entry::Refused(section) = entry else { continue };
        assert!(path.starts_with(section), "{path} is not in {section}");
        sections.insert(section);
    }
    assert_eq!(sections, REFUSED.iter().copied().collect());
}

#[test]
fn every_named_test_exists_or_is_pending() {
    let crates = crates();
    let mut named: BTreeSet<&str> = table()
        .into_values()
        .flat_map(|entry| match entry {
            Entry::Refused(_) => vec![REFUSAL],
            Entry::Shown(tests) => tests,
        })
        .collect();
    for test in &named {
        assert!(PENDING.contains(test) || exists(&crates, test), "no such test: {test}");
    }
    for test in PENDING {
        assert!(named.remove(test), "pending, and named by no leaf: {test}");
    }
}

/// The sources of each layer, service and part of the operator, and the tests across crates.
fn crates() -> BTreeMap<String, PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut crates = BTreeMap::from([("vmcp-tests".to_owned(), root.join("tests/tests"))]);
    for folder in ["layers", "services", "operator"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let Ok(manifest) = fs::read_to_string(path.join("Cargo.toml")) else { continue };
            let name =
                manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
            crates.insert(name.unwrap().to_owned(), path);
        }
    }
    crates
}

fn exists(crates: &BTreeMap<String, PathBuf>, test: &str) -> bool {
    let (package, rest) = test.split_once("::").unwrap_or_default();
    let name = rest.rsplit("::").next().unwrap_or_default();
    crates.get(package).is_some_and(|folder| holds(folder, &format!("fn {name}(")))
}

fn holds(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return path.file_name().is_some_and(|name| name != "target") && holds(&path, text);
        }
        path.extension().is_some_and(|extension| extension == "rs")
            && fs::read_to_string(&path).is_ok_and(|source| source.contains(text))
    })
}

/// Adds the path of each leaf below `schema`: a value without keys, or with keys that the schema does not define.
fn walk<'a>(
    root: &'a Value,
    schema: &'a Value,
    path: &str,
    within: &mut Vec<&'a str>,
    leaves: &mut BTreeSet<String>,
) {
    if let Some(name) = schema["$ref"].as_str() {
        // A type within itself has no other leaves than the first time.
        if within.contains(&name) {
            return;
        }
        within.push(name);
        let definition = name.strip_prefix('#').and_then(|pointer| root.pointer(pointer)).unwrap();
        walk(root, definition, path, within, leaves);
        within.pop();
        return;
    }
    if let Some(properties) = schema["properties"].as_object() {
        for (key, property) in properties {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            walk(root, property, &path, within, leaves);
        }
    } else if schema["items"].is_object() {
        walk(root, &schema["items"], &format!("{path}[]"), within, leaves);
    } else if schema["additionalProperties"].is_object() {
        walk(root, &schema["additionalProperties"], &format!("{path}.*"), within, leaves);
    } else {
        leaves.insert(path.to_owned());
    }
}
