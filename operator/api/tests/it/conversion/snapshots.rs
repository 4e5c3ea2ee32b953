//! Each case with what it is converted to. `UPDATE_SNAPSHOTS=1` writes the files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use vmcp_api::conversion::{
    Backends, ConditionUpdate, Conversion, ConversionError, Inputs, LeftOut, LeftOutReason,
    SecretEntry, Warning, WarningReason, backends, convert, references,
};
use vmcp_config::{File, Format};

use super::fixture::{case, folder, inputs, manifests, names, secret_values};

/// Case whose sections others do not repeat.
const MINIMAL: &str = "minimal";

#[test]
fn converts_each_case_as_recorded() {
    let minimal = convert(&case(MINIMAL)).unwrap().yaml;
    for name in names() {
        let inputs = case(&name);
        // The name of the server is in several sections.
        let mut base = sections(&minimal.replace(MINIMAL, inputs.name()));
        if name == MINIMAL {
            base.clear();
        }
        let mut result = render(&inputs, &base);
        // A build of the whole workspace keeps keys in the order of insertion, one of the crate alone sorts them.
        result.sort_all_objects();
        let text = serde_saphyr::to_string(&result).unwrap();
        let path = folder().join(format!("{name}.expected.yaml"));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, expected, "{name}; UPDATE_SNAPSHOTS=1 writes the file");
    }
}

#[test]
fn configuration_is_equal_after_parsing() {
    for name in names() {
        let Ok(Conversion { file, yaml, .. }) = convert(&case(&name)) else { continue };
        assert_eq!(File::parse(&yaml, Format::Yaml).unwrap(), file, "{name}");
    }
}

/// YAML with the keys of each map sorted.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Sorted {
    Map(BTreeMap<String, Sorted>),
    List(Vec<Sorted>),
    Scalar(Value),
}

#[test]
fn keys_are_sorted_in_each_build() {
    for name in names() {
        let Ok(Conversion { yaml, .. }) = convert(&case(&name)) else { continue };
        let sorted: Sorted = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(serde_saphyr::to_string(&sorted).unwrap(), yaml, "{name}");
    }
}

#[test]
fn output_holds_no_secret_value() {
    for name in names() {
        let manifests = manifests(&name);
        let inputs = inputs(&manifests);
        let output =
            format!("{:?}{:?}{:?}", convert(&inputs), backends(&inputs), references(&inputs));
        for value in secret_values(&manifests) {
            assert!(!output.contains(&value), "{name}: {value}");
        }
    }
}

#[test]
fn cases_show_each_left_out_reason() {
    let shown: BTreeSet<&str> = names()
        .iter()
        .filter_map(|name| convert(&case(name)).ok())
        .flat_map(|conversion| conversion.left_out)
        .map(|left_out| left_out.reason.as_str())
        .collect();
    let all: BTreeSet<&str> = LeftOutReason::ALL.into_iter().map(LeftOutReason::as_str).collect();
    assert_eq!(shown, all);
}

#[test]
fn cases_show_each_warning_reason() {
    let shown: BTreeSet<WarningReason> = names()
        .iter()
        .flat_map(|name| {
            let inputs = case(name);
            let converted = convert(&inputs).map(|conversion| conversion.warnings);
            let discovered = backends(&inputs).map(|backends| backends.warnings);
            converted.into_iter().chain(discovered).flatten()
        })
        .map(|warning| warning.reason)
        .collect();
    assert_eq!(shown.into_iter().collect::<Vec<_>>(), WarningReason::ALL);
}

#[test]
fn references_list_what_conversion_copies() {
    for name in names() {
        let inputs = case(&name);
        let Ok(conversion) = convert(&inputs) else { continue };
        assert_eq!(references(&inputs), conversion.secrets, "{name}");
        let discovered = backends(&inputs).unwrap();
        for entry in discovered.secrets {
            assert!(conversion.secrets.contains(&entry), "{name}: {entry:?}");
        }
    }
}

/// Returns the outputs of both conversions; of the configuration, the sections that differ from `base`.
fn render(inputs: &Inputs, base: &Map<String, Value>) -> Value {
    match convert(inputs) {
        Ok(conversion) => {
            let mut value = conversion_value(&conversion, base);
            let is_discovered = conversion.yaml.contains("source: discovered");
            if is_discovered && !inputs.members.is_empty() {
                value["discovered"] = discovered_value(&backends(inputs).unwrap());
            }
            value
        }
        Err(errors) => json!({ "errors": errors.iter().map(error_value).collect::<Vec<_>>() }),
    }
}

fn conversion_value(conversion: &Conversion, base: &Map<String, Value>) -> Value {
    let Conversion { file: _, yaml, secrets, environment, hosts, left_out, warnings, conditions } =
        conversion;
    let mut configuration = sections(yaml);
    configuration.retain(|key, value| base.get(key) != Some(value));
    let mut value = json!({ "configuration": configuration });
    add(&mut value, "secrets", secrets.iter().map(secret_text));
    let variables = environment.iter().map(|one| format!("{}={}", one.name, one.value));
    add(&mut value, "environment", variables);
    add(&mut value, "hosts", hosts.iter().cloned());
    add(&mut value, "leftOut", left_out.iter().map(left_out_text));
    add(&mut value, "warnings", warnings.iter().map(warning_text));
    add(&mut value, "conditions", conditions.iter().map(condition_text));
    value
}

fn discovered_value(backends: &Backends) -> Value {
    let Backends {
        backends,
        variables,
        outgoing_auth,
        tools,
        secrets: _,
        left_out: _,
        warnings,
        conditions: _,
    } = backends;
    let mut value = json!({ "backends": backends, "outgoingAuth": outgoing_auth, "tools": tools });
    add(&mut value, "variables", variables.iter().map(ToString::to_string));
    add(&mut value, "warnings", warnings.iter().map(warning_text));
    value
}

/// Adds a list unless it is empty.
fn add(value: &mut Value, key: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    if !lines.is_empty() {
        value[key] = json!(lines);
    }
}

fn sections(yaml: &str) -> Map<String, Value> {
    serde_saphyr::from_str(yaml).unwrap()
}

fn secret_text(entry: &SecretEntry) -> String {
    let SecretEntry { file, source, path } = entry;
    format!("{file}: {source} ({:?}), for {path}", source.form)
}

fn left_out_text(left_out: &LeftOut) -> String {
    let LeftOut { backend, kind, reason, message } = left_out;
    format!("{} {backend}: {}: {message}", kind.as_str(), reason.as_str())
}

fn warning_text(warning: &Warning) -> String {
    let Warning { reason, message } = warning;
    format!("{}: {message}", reason.as_str())
}

fn condition_text(condition: &ConditionUpdate) -> String {
    let ConditionUpdate { type_, status, reason, message } = condition;
    format!("{type_}={}: {reason}: {message}", status.as_str())
}

fn error_value(error: &ConversionError) -> Value {
    let ConversionError { path, condition, phase, event } = error;
    json!({ "path": path, "condition": condition_text(condition), "phase": phase, "event": event })
}
