//! CEL rules: each refuses a manifest that differs from a valid one in what the rule is about.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    manifests::{kind, manifests},
    support::{compiled, schemas, visit},
};

#[derive(Debug, Deserialize)]
struct Case {
    manifest: String,
    changes: BTreeMap<String, Value>,
    message: String,
}

fn cases() -> Vec<Case> {
    serde_saphyr::from_str(include_str!("rules.yaml")).unwrap()
}

#[test]
fn rules_refuse_invalid_manifests() {
    let manifests: BTreeMap<_, _> = manifests().into_iter().collect();
    let mut schemas = BTreeMap::new();
    for case in cases() {
        let mut valid = manifests[&case.manifest].clone();
        let mut manifest = valid.clone();
        for (pointer, value) in &case.changes {
            change(&mut manifest, pointer, value);
        }
        let name = kind(&manifest).to_owned();
        let schema = schemas.entry(name.clone()).or_insert_with(|| compiled(&name));
        schema.apply_defaults(&mut manifest);
        schema.apply_defaults(&mut valid);
        // The change of an object that was valid, so that rules about changes run too.
        let errors = schema.validate(&manifest, Some(&valid));
        let refused = errors.iter().any(|error| error.detail == case.message);
        assert!(refused, "{case:?}: {errors:?}");
    }
}

#[test]
fn every_rule_has_an_invalid_manifest() {
    let mut expected: BTreeMap<String, usize> = BTreeMap::new();
    for case in cases() {
        *expected.entry(case.message).or_default() += 1;
    }
    let mut rules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, schema) in schemas() {
        visit(&schema, "", &mut |_, schema| {
            let Some(Value::Array(validations)) = schema.get("x-kubernetes-validations") else {
                return;
            };
            for validation in validations {
                let text = |key: &str| validation[key].as_str().unwrap().to_owned();
                rules.entry(text("message")).or_default().insert(text("rule"));
            }
        });
    }
    for (message, rules) in &rules {
        let cases = expected.get(message).copied().unwrap_or(0);
        assert!(cases >= rules.len(), "{message}: {cases} cases for {rules:?}");
    }
    let stale: Vec<_> = expected.keys().filter(|message| !rules.contains_key(*message)).collect();
    assert!(stale.is_empty(), "no rule says {stale:?}");
}

fn change(manifest: &mut Value, pointer: &str, value: &Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = manifest.pointer_mut(parent).expect(pointer).as_object_mut().expect(pointer);
    if value.is_null() {
        parent.remove(key);
    } else {
        parent.insert(key.to_owned(), value.clone());
    }
}
