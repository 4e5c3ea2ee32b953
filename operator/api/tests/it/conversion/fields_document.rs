//! `FIELDS.md`: all fields of all kinds, with what is allowed, what becomes of it, and the test that shows it. The table follows from
//! the schemas, `leaves.txt`, and the table of the configuration. `UPDATE_SNAPSHOTS=1` writes the file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use serde_json::Value;

use super::leaves::{CONFIGURATION, TABLE, rows};
use crate::support::schemas;

/// Test of the outputs of the conversion besides the configuration.
const CONVERSION: &str = "vmcp-api::conversion::leaves::changed_leaves_change_what_table_says";

/// Test of fields that other programs read.
const ADMISSION: &str = "vmcp-api::manifests::valid_manifests_are_admitted";

/// Longest pattern that the table shows.
const MAX_PATTERN: usize = 40;

const HEAD: &str = "# Fields of all kinds

Written by a test from the schemas and the tables of effects: `UPDATE_SNAPSHOTS=1 cargo test -p vmcp-api fields_document`.

The API server refuses what is not allowed (`vmcp-api::bounds`; `CEL`: a rule that reads the field, `vmcp-api::rules`). *Effect* names the settings of the server's
configuration that change with the field, or another output: `secrets` (files of the Secret that the operator makes), `left out`
(backends), `conditions`, `warnings`, `error` (the value decides what is accepted). *Shown by* names a test of the effect.
";

#[test]
fn fields_document_is_current() {
    let configuration = Path::new(env!("CARGO_MANIFEST_DIR")).join(CONFIGURATION);
    let configuration = fs::read_to_string(configuration).unwrap();
    let text = document(&rows(&configuration));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("FIELDS.md");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "FIELDS.md differs; UPDATE_SNAPSHOTS=1 writes it");
}

fn document(configuration: &BTreeMap<&str, &str>) -> String {
    let schemas: BTreeMap<_, _> = schemas().into_iter().collect();
    let mut text = HEAD.to_owned();
    let mut kind = "";
    for (key, effect) in rows(TABLE) {
        let (kind_of_row, path) = key.split_once(' ').unwrap();
        if kind_of_row != kind {
            kind = kind_of_row;
            write!(
                text,
                "\n## {kind}\n\n| Field | Allowed | Effect | Shown by |\n|---|---|---|---|\n"
            )
            .unwrap();
        }
        let allowed = allowed(&schemas[kind], path);
        let shown = shown_by(effect, configuration);
        assert!(!allowed.is_empty() && !shown.is_empty(), "{key}");
        let (effect, _) = effect.split_once(": ").unwrap_or((effect, ""));
        writeln!(text, "| `{path}` | {allowed} | {effect} | {shown} |").unwrap();
    }
    text
}

/// Returns the tests of an effect. Of a field with many, the first two.
fn shown_by(effect: &str, configuration: &BTreeMap<&str, &str>) -> String {
    if let Some((_, test)) = effect.split_once(": ") {
        return if test.contains("::") { test.to_owned() } else { ADMISSION.to_owned() };
    }
    if effect.starts_with("replaced by ") || effect == "open" {
        return CONVERSION.to_owned();
    }
    let mut tests: BTreeSet<&str> = BTreeSet::new();
    for leaf in effect.split(", ") {
        let row = configuration.get(leaf).copied().unwrap_or(CONVERSION);
        tests.extend(row.split(", ").next());
    }
    tests.into_iter().take(2).collect::<Vec<_>>().join(", ")
}

/// Returns what the schema allows at a path.
fn allowed(schema: &Value, path: &str) -> String {
    let mut schema = schema;
    let mut is_required = false;
    let mut has_rule = false;
    let last = path.rsplit('.').find(|part| *part != "*").unwrap().trim_end_matches("[]");
    for part in path.split('.') {
        let name = part.trim_end_matches("[]");
        has_rule |= rules_name(schema, last);
        if name == "*" {
            schema = &schema["additionalProperties"];
        } else {
            let required = schema["required"].as_array();
            is_required = required.is_some_and(|names| names.contains(&name.into()));
            schema = &schema["properties"][name];
        }
        for _ in 0..(part.len() - name.len()) / 2 {
            schema = &schema["items"];
        }
    }
    let mut facts = vec![type_of(schema)];
    if is_required {
        facts.push("required".to_owned());
    }
    if has_rule || rules_name(schema, "self") {
        facts.push("CEL".to_owned());
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        let is_short = pattern.len() <= MAX_PATTERN && !pattern.contains(['|', '`']);
        facts.push(if is_short { format!("`{pattern}`") } else { "pattern".to_owned() });
    }
    let bounds = [
        ("minimum", "from"),
        ("maximum", "to"),
        ("minLength", "length from"),
        ("maxLength", "length to"),
    ];
    for (keyword, name) in bounds {
        if let Some(bound) = schema[keyword].as_f64() {
            facts.push(format!("{name} {bound}"));
        }
    }
    if !schema["default"].is_null() {
        facts.push(format!("default `{}`", schema["default"]));
    }
    facts.join(", ")
}

/// Returns whether a CEL rule of a schema itself reads a field.
fn rules_name(schema: &Value, field: &str) -> bool {
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    let mut texts = rules.filter_map(|rule| rule["rule"].as_str());
    texts.any(|rule| {
        // Every second part is a text.
        let code = rule.split('\'').step_by(2).collect::<Vec<_>>().join(" ");
        let words = code.split(|character: char| !character.is_alphanumeric() && character != '.');
        words
            .flat_map(|word| word.split('.').skip(usize::from(field != "self")))
            .any(|word| word == field)
    })
}

fn type_of(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
        return values.join(" or ");
    }
    let name = schema["type"].as_str().unwrap_or("any value");
    schema["format"].as_str().unwrap_or(name).to_owned()
}
