//! Bounds of each field: the valid manifests meet them, and an API server refuses a value outside.

use serde_json::{Map, Value, json};

use crate::{
    manifests::{find, kind, manifests},
    support::{compiled, schemas, visit},
};

#[test]
fn values_outside_bounds_are_refused() {
    let manifests = manifests();
    let mut checked = 0;
    for (kind_name, schema) in schemas() {
        let validator = compiled(&kind_name);
        visit(&schema["properties"]["spec"], "spec", &mut |path, schema| {
            let mut of_kind = manifests.iter().filter(|(_, manifest)| kind(manifest) == kind_name);
            let found = of_kind.find_map(|(_, manifest)| {
                Some((manifest, find(manifest, path).into_iter().next()?))
            });
            let Some((manifest, pointer)) = found else { return };
            let value = manifest.pointer(&pointer).unwrap();
            for (bound, outside) in values_outside(schema, value) {
                let mut manifest = manifest.clone();
                *manifest.pointer_mut(&pointer).unwrap() = outside;
                let errors = validator.validate(&manifest, None);
                let at = |field: &str| field.replace(['[', '.'], "/").replace(']', "");
                let refused = errors
                    .iter()
                    .any(|error| format!("/{}", at(&error.field)) == slashes(&pointer));
                assert!(refused, "{kind_name} {pointer} {bound}: {errors:?}");
                checked += 1;
            }
        });
    }
    assert!(checked > 1000, "{checked}");
}

fn slashes(pointer: &str) -> String {
    pointer.replace("~1", "/").replace('.', "/")
}

/// Returns a value outside of each bound.
fn values_outside(schema: &Value, value: &Value) -> Vec<(&'static str, Value)> {
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
    let size = |keyword: &str| bound(keyword).map(|size| usize::try_from(size).unwrap());
    let number = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let mut outside = Vec::new();
    if let Some(type_name) = schema.get("type").and_then(Value::as_str) {
        outside.push(("type", if type_name == "boolean" { json!("text") } else { json!(true) }));
    }
    if schema.get("enum").is_some() {
        outside.push(("enum", json!("no such word")));
    }
    if schema.get("pattern").is_some() {
        outside.push(("pattern", json!("{\n")));
    }
    if let Some(least) = number("minimum") {
        outside.push(("minimum", integer(least - 1.0)));
    }
    if let Some(most) = number("maximum") {
        outside.push(("maximum", integer(most + 1.0)));
    }
    if size("minLength").is_some_and(|least| least > 0) {
        outside.push(("minLength", json!("")));
    }
    if let Some(most) = size("maxLength") {
        outside.push(("maxLength", json!("a".repeat(most + 1))));
    }
    if size("minItems").is_some_and(|least| least > 0) {
        outside.push(("minItems", json!([])));
    }
    if let (Some(most), Some(item)) = (size("maxItems"), value.get(0)) {
        outside.push(("maxItems", json!(vec![item; most + 1])));
    }
    if size("minProperties").is_some_and(|least| least > 0) {
        outside.push(("minProperties", json!({})));
    }
    let entry = value.as_object().and_then(|map| map.values().next());
    if let (Some(most), Some(entry)) = (size("maxProperties"), entry) {
        let map: Map<_, _> = (0..=most).map(|index| (format!("k{index}"), entry.clone())).collect();
        outside.push(("maxProperties", Value::Object(map)));
    }
    outside
}

fn integer(number: f64) -> Value {
    serde_json::from_str(&format!("{number:.0}")).unwrap()
}

#[test]
fn required_fields_are_required() {
    let manifests = manifests();
    let mut checked = 0;
    for (kind_name, schema) in schemas() {
        let validator = compiled(&kind_name);
        visit(&schema["properties"]["spec"], "spec", &mut |path, schema| {
            let Some(Value::Array(names)) = schema.get("required") else { return };
            for name in names.iter().map(|name| name.as_str().unwrap()) {
                let mut of_kind =
                    manifests.iter().filter(|(_, manifest)| kind(manifest) == kind_name);
                let (mut manifest, pointer) = of_kind
                    .find_map(|(_, manifest)| {
                        Some((manifest.clone(), find(manifest, path).into_iter().next()?))
                    })
                    .unwrap();
                manifest.pointer_mut(&pointer).unwrap().as_object_mut().unwrap().remove(name);
                let errors = validator.validate(&manifest, None);
                let field = format!(".{name}");
                let refused = errors.iter().any(|error| {
                    error.field.ends_with(&field) && error.to_string().contains("Required value")
                });
                assert!(refused, "{kind_name} {pointer} without {name}: {errors:?}");
                checked += 1;
            }
        });
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn lists_refuse_two_items_of_one_key() {
    let manifests = manifests();
    let mut checked = 0;
    for (kind_name, schema) in schemas() {
        let validator = compiled(&kind_name);
        visit(&schema["properties"]["spec"], "spec", &mut |path, schema| {
            if !["map", "set"].map(Value::from).contains(&schema["x-kubernetes-list-type"]) {
                return;
            }
            let mut of_kind = manifests.iter().filter(|(_, manifest)| kind(manifest) == kind_name);
            let (mut manifest, pointer) = of_kind
                .find_map(|(_, manifest)| {
                    Some((manifest.clone(), find(manifest, path).into_iter().next()?))
                })
                .unwrap();
            let list = manifest.pointer_mut(&pointer).unwrap().as_array_mut().unwrap();
            list.push(list[0].clone());
            let errors = validator.validate(&manifest, None);
            let refused = errors.iter().any(|error| error.to_string().contains("Duplicate value"));
            assert!(refused, "{kind_name} {pointer}: {errors:?}");
            checked += 1;
        });
    }
    assert!(checked >= 12, "{checked}");
}
