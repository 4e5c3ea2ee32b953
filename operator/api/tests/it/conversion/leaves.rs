//! Every field has an effect: `leaves.txt` lists each leaf of the schemas with what changes if its value changes, or with the
//! part of the operator that reads it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::{Map, Value, json};
use vmcp_api::conversion::{Inputs, backends, convert, references};

use super::{
    errors::replace,
    fixture::{inputs, manifests, names},
    full,
};
use crate::support::schemas;

pub(super) const TABLE: &str = include_str!("leaves.txt");

/// Leaves of the server's configuration, each with the tests that show its effect.
pub(super) const CONFIGURATION: &str = "../../services/config/tests/it/leaves.txt";

/// Number of leaves that the operator does not read yet. Each commit may lower it.
const OPEN: usize = 0;

/// Beginnings of rows about leaves that the conversion does not read.
const OTHERS: [&str; 3] = ["read by ", "written by ", "replaced by "];

/// Part of a path: a key, a key of a map, or an index.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Segment {
    Key(String),
    AnyKey,
    Item,
}

type LeafPath = Vec<Segment>;

#[test]
fn changed_leaves_change_what_table_says() {
    let table = rows(TABLE);
    let configuration = configuration_leaves();
    let cases = names().into_iter().map(|name| manifests(&name)).chain(full::cases());
    let bases: Vec<(Vec<Value>, BTreeMap<LeafPath, Value>)> = cases
        .map(|manifests| {
            let output = flatten(&output(&inputs(&manifests)));
            (manifests, output)
        })
        .collect();
    let mut found = BTreeMap::new();
    for (kind, path) in leaves() {
        let key = format!("{kind} {}", text(&path));
        let mut effects = BTreeSet::new();
        for (manifests, base) in &bases {
            effects.extend(effects_of(manifests, base, &kind, &path, &configuration));
            effects = prefer_configuration(effects);
            if effects.iter().any(|effect| effect.contains('.')) {
                break;
            }
        }
        let effect = match (effects.is_empty(), table.get(key.as_str())) {
            (false, _) => effects.into_iter().collect::<Vec<_>>().join(", "),
            (true, Some(row)) if OTHERS.iter().any(|start| row.starts_with(start)) => {
                (*row).to_owned()
            }
            (true, _) => "open".to_owned(),
        };
        found.insert(key, effect);
    }
    let mut lines: Vec<String> =
        TABLE.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect();
    lines.extend(found.iter().map(|(key, effect)| format!("{key} = {effect}")));
    let written = lines.join("\n") + "\n";
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/conversion/leaves.txt");
        fs::write(path, &written).unwrap();
    }
    let missing: Vec<_> = found.keys().filter(|key| !table.contains_key(key.as_str())).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    for (key, effect) in &found {
        assert_eq!(table[key.as_str()], effect, "{key}");
    }
    assert_eq!(table.len(), found.len(), "a row has no leaf");
}

#[test]
fn full_cases_have_no_error() {
    for manifests in full::cases() {
        let output = output(&inputs(&manifests));
        assert_eq!(output.get("error"), None, "{}", manifests[0]["metadata"]["name"]);
    }
}

#[test]
fn open_leaves_become_fewer() {
    let open: Vec<_> = rows(TABLE).into_iter().filter(|(_, effect)| *effect == "open").collect();
    assert_eq!(open.len(), OPEN, "{open:#?}");
}

#[test]
fn tests_named_by_table_exist() {
    for (key, effect) in rows(TABLE) {
        let starts = ["read by ", "written by "];
        let Some(reader) = starts.iter().find_map(|start| effect.strip_prefix(start)) else {
            continue;
        };
        let (_, test) = reader.split_once(": ").unwrap_or_else(|| panic!("{key} = {effect}"));
        if test.contains("::") {
            assert!(exists(test), "{key}: no such test: {test}");
        }
    }
}

pub(super) fn rows(table: &str) -> BTreeMap<&str, &str> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(" = ").unwrap_or_else(|| panic!("{line}"))).collect()
}

fn exists(test: &str) -> bool {
    let name = test.rsplit("::").next().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["operator/api", "operator/controller", "services"];
    folders.iter().any(|folder| holds(&root.join(folder), &format!("fn {name}(")))
}

fn holds(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, text);
        }
        path.extension().is_some_and(|extension| extension == "rs")
            && fs::read_to_string(&path).is_ok_and(|source| source.contains(text))
    })
}

/// Returns the leaves of all kinds.
fn leaves() -> Vec<(String, LeafPath)> {
    let mut leaves = Vec::new();
    for (kind, schema) in schemas() {
        walk(&schema, &mut Vec::new(), &mut |path| leaves.push((kind.clone(), path.clone())));
    }
    leaves
}

fn walk(schema: &Value, path: &mut LeafPath, visitor: &mut dyn FnMut(&LeafPath)) {
    let mut below = |segment, schema: &Value| {
        path.push(segment);
        walk(schema, path, visitor);
        path.pop();
    };
    if let Some(properties) = schema["properties"].as_object() {
        for (key, schema) in properties {
            below(Segment::Key(key.clone()), schema);
        }
    } else if schema["items"].is_object() {
        below(Segment::Item, &schema["items"]);
    } else if schema["additionalProperties"].is_object() {
        below(Segment::AnyKey, &schema["additionalProperties"]);
    } else {
        visitor(path);
    }
}

fn text(path: &[Segment]) -> String {
    path.iter().fold(String::new(), |text, segment| match segment {
        Segment::Item => format!("{text}[]"),
        Segment::AnyKey => format!("{text}.*"),
        Segment::Key(key) if text.is_empty() => key.clone(),
        Segment::Key(key) => format!("{text}.{key}"),
    })
}

/// Returns the leaves of the configuration, as paths.
fn configuration_leaves() -> Vec<LeafPath> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(CONFIGURATION);
    let table = fs::read_to_string(path).unwrap();
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (path, _) = line.split_once(" = ").unwrap();
            let mut segments = Vec::new();
            for part in path.split('.') {
                let name = part.trim_end_matches("[]");
                segments.push(match name {
                    "*" => Segment::AnyKey,
                    name => Segment::Key(name.to_owned()),
                });
                let items = (part.len() - name.len()) / 2;
                segments.extend(std::iter::repeat_n(Segment::Item, items));
            }
            segments
        })
        .collect()
}

/// Returns both conversions as one value. All Secrets and ConfigMaps exist.
fn output(inputs: &Inputs) -> Value {
    let mut inputs = inputs.clone();
    inputs.available = references(&inputs).into_iter().map(|entry| entry.source).collect();
    let inputs = &inputs;
    let mut value = Map::new();
    match convert(inputs) {
        Err(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            value.insert("error".to_owned(), json!(errors.join("; ")));
        }
        Ok(conversion) => {
            let configuration: Value = serde_saphyr::from_str(&conversion.yaml).unwrap();
            value.insert("configuration".to_owned(), configuration);
            let secrets = format!("{:?}", conversion.secrets);
            value.insert("secrets".to_owned(), json!(secrets));
            value.insert("left out".to_owned(), json!(format!("{:?}", conversion.left_out)));
            value.insert("conditions".to_owned(), json!(format!("{:?}", conversion.conditions)));
            value.insert("warnings".to_owned(), json!(format!("{:?}", conversion.warnings)));
        }
    }
    if let Ok(backends) = backends(inputs) {
        let found = json!({
            "backends": backends.backends, "outgoingAuth": backends.outgoing_auth,
            "aggregation": { "tools": backends.tools },
        });
        value.insert("discovered".to_owned(), found);
    }
    Value::Object(value)
}

fn flatten(value: &Value) -> BTreeMap<LeafPath, Value> {
    let mut leaves = BTreeMap::new();
    collect(value, &mut Vec::new(), &mut leaves);
    leaves
}

/// Adds the leaves of a value. The position of an item is a key of its path.
fn collect(value: &Value, path: &mut LeafPath, leaves: &mut BTreeMap<LeafPath, Value>) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (key, value) in object {
                path.push(Segment::Key(key.clone()));
                collect(value, path, leaves);
                path.pop();
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                path.push(Segment::Key(format!("#{index}")));
                collect(value, path, leaves);
                path.pop();
            }
        }
        value => {
            leaves.insert(path.clone(), value.clone());
        }
    }
}

/// Returns the effects of changing a leaf in the manifests of a case: leaves of the configuration, or other outputs.
fn effects_of(
    manifests: &[Value],
    base: &BTreeMap<LeafPath, Value>,
    kind: &str,
    path: &[Segment],
    configuration: &[LeafPath],
) -> BTreeSet<String> {
    let mut effects = BTreeSet::new();
    for (index, manifest) in manifests.iter().enumerate() {
        if manifest["kind"] != kind {
            continue;
        }
        for pointer in pointers(manifest, path) {
            let value = manifest.pointer(&pointer).unwrap();
            for other in alternatives(value, kind, path) {
                let mut changed = manifests.to_vec();
                replace(&mut changed[index], &pointer, &other);
                let after = flatten(&output(&inputs(&changed)));
                effects.extend(difference(base, &after, configuration));
            }
        }
    }
    effects
}

/// Keeps the most telling effects: those in the configuration, else in other outputs, else an error.
fn prefer_configuration(effects: BTreeSet<String>) -> BTreeSet<String> {
    let is_other = |effect: &String| {
        ["secrets", "left out", "conditions", "warnings"].contains(&effect.as_str())
    };
    let (others, rest): (BTreeSet<_>, BTreeSet<_>) = effects.into_iter().partition(is_other);
    let (errors, leaves): (BTreeSet<_>, BTreeSet<_>) =
        rest.into_iter().partition(|effect| effect == "error");
    [leaves, others, errors].into_iter().find(|effects| !effects.is_empty()).unwrap_or_default()
}

fn difference(
    base: &BTreeMap<LeafPath, Value>,
    after: &BTreeMap<LeafPath, Value>,
    configuration: &[LeafPath],
) -> BTreeSet<String> {
    let error = vec![Segment::Key("error".to_owned())];
    if after.contains_key(&error) || base.contains_key(&error) {
        let is_equal = after.get(&error) == base.get(&error);
        return if is_equal { BTreeSet::new() } else { BTreeSet::from(["error".to_owned()]) };
    }
    let left_out = [Segment::Key("left out".to_owned())];
    if base.get(left_out.as_slice()) != after.get(left_out.as_slice()) {
        return BTreeSet::from(["left out".to_owned()]);
    }
    let paths = base.keys().chain(after.keys());
    let changed = paths.filter(|path| base.get(*path) != after.get(*path));
    changed
        .map(|path| match path.split_first() {
            Some((Segment::Key(root), rest)) if root == "configuration" || root == "discovered" => {
                let known = configuration.iter().find(|leaf| matches(leaf, rest));
                known.map_or_else(|| panic!("no leaf {}", text(rest)), |leaf| text(leaf))
            }
            Some((Segment::Key(root), _)) => root.clone(),
            Some(_) | None => panic!("{path:?}"),
        })
        .collect()
}

/// Returns `true` if a path of an output is that of a leaf, within a leaf, or a map or list without content above it.
fn matches(leaf: &[Segment], path: &[Segment]) -> bool {
    leaf.iter().zip(path).all(|(leaf, found)| match (leaf, found) {
        (Segment::Key(key), Segment::Key(found)) => key == found,
        (Segment::Item, Segment::Key(found)) => found.starts_with('#'),
        (Segment::AnyKey, _) => true,
        _ => false,
    })
}

/// Returns the JSON pointers of the values at a path.
fn pointers(manifest: &Value, path: &[Segment]) -> Vec<String> {
    let mut found = vec![(String::new(), manifest)];
    for segment in path {
        found = found
            .into_iter()
            .flat_map(|(pointer, value)| -> Vec<(String, &Value)> {
                let join =
                    |key: &str| format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                match (segment, value) {
                    (Segment::Key(key), Value::Object(object)) => {
                        object.get(key).map(|value| (join(key), value)).into_iter().collect()
                    }
                    (Segment::AnyKey, Value::Object(object)) => {
                        object.iter().map(|(key, value)| (join(key), value)).collect()
                    }
                    (Segment::Item, Value::Array(items)) => items
                        .iter()
                        .enumerate()
                        .map(|(index, value)| (join(&index.to_string()), value))
                        .collect(),
                    _ => Vec::new(),
                }
            })
            .collect();
    }
    found.into_iter().map(|(pointer, _)| pointer).collect()
}

/// Returns other values of a leaf: those of its enum, and values of its type.
fn alternatives(value: &Value, kind: &str, path: &[Segment]) -> Vec<Value> {
    let schemas = schemas_by_kind();
    let schema = path.iter().fold(&schemas[kind], |schema, segment| match segment {
        Segment::Key(key) => &schema["properties"][key],
        Segment::Item => &schema["items"],
        Segment::AnyKey => &schema["additionalProperties"],
    });
    if let Some(values) = schema["enum"].as_array() {
        let mut others: Vec<Value> =
            values.iter().filter(|other| *other != value).cloned().collect();
        // The only alternative of a single value is its absence.
        if others.is_empty() {
            others.push(Value::Null);
        }
        return others;
    }
    match value {
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(value) => vec![json!(value.as_i64().unwrap() + 1)],
        Value::String(text) => strings(text),
        Value::Object(object) => {
            let mut object = object.clone();
            object.insert("other".to_owned(), json!("value"));
            vec![Value::Object(object)]
        }
        other => vec![other.clone()],
    }
}

/// Returns texts of the same form: another duration, number, URL or name.
fn strings(text: &str) -> Vec<Value> {
    if text.ends_with("T00:00:00Z") {
        return vec![json!("2027-01-01T00:00:00Z")];
    }
    if text.ends_with(['s', 'm', 'h']) && text.starts_with(|c: char| c.is_ascii_digit()) {
        return vec![json!(format!("1{text}"))];
    }
    if text.parse::<f64>().is_ok() {
        return vec![json!("0.75")];
    }
    match text.split_once("://") {
        Some(_) if text.ends_with('/') => vec![json!(format!("{text}other"))],
        Some(_) => vec![json!(format!("{text}/other"))],
        None => vec![json!(format!("{text}-other")), json!(format!("{text}1"))],
    }
}

fn schemas_by_kind() -> &'static BTreeMap<String, Value> {
    static SCHEMAS: std::sync::OnceLock<BTreeMap<String, Value>> = std::sync::OnceLock::new();
    SCHEMAS.get_or_init(|| schemas().into_iter().collect())
}
