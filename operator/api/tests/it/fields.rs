//! Fields of VirtualMCPServer and MCPExternalAuthConfig as the specification states them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::{schema, schemas, visit};

/// Patterns of the specification by name.
const PATTERNS: [(&str, &str); 12] = [
    ("DURATION", r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"),
    ("ISSUER", r"^https?://[^\s?#]+[^/\s?#]$"),
    ("HTTP", r"^https?://.*$"),
    ("HTTPS", r"^https://.*$"),
    ("URL", r"^https?://"),
    ("DNS", r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"),
    ("DECIMAL", r"^([0-9]*[.])?[0-9]+$"),
    ("REASON", r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    (
        "CONDTYPE",
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    ),
    ("ARN", r"^arn:(aws|aws-cn|aws-us-gov):iam::\d{12}:role/[\w+=,.@\-_/]+$"),
    ("REGION", r"^[a-z]{2}(-[a-z]+)+-\d+$"),
    (
        "SUBTYPE",
        r"^(access_token|id_token|jwt|urn:ietf:params:oauth:token-type:(access_token|id_token|jwt))?$",
    ),
];

/// Patterns of the schema that admit the same texts in other words.
const EQUIVALENT: [(&str, &str); 4] = [
    ("^https?://", r"^https?://.*$"),
    ("^https://", r"^https://.*$"),
    (
        r"^arn:(aws|aws-cn|aws-us-gov):iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+$",
        r"^arn:(aws|aws-cn|aws-us-gov):iam::\d{12}:role/[\w+=,.@\-_/]+$",
    ),
    ("^[a-z]{2}(-[a-z]+)+-[0-9]+$", r"^[a-z]{2}(-[a-z]+)+-\d+$"),
];

/// Returns the places of a shape that occurs in several places.
fn places(shape: &str) -> Vec<(&str, &str)> {
    match shape {
        "AUTHSERVER" => vec![
            ("VirtualMCPServer", "spec.authServerConfig."),
            ("MCPExternalAuthConfig", "spec.embeddedAuthServer."),
        ],
        "CONFIG" => vec![("VirtualMCPServer", "spec.config.")],
        "STRATEGY" => vec![
            ("VirtualMCPServer", "spec.config.outgoingAuth.default."),
            ("VirtualMCPServer", "spec.config.outgoingAuth.backends[]."),
        ],
        "TOOL" => vec![
            ("VirtualMCPServer", "spec.config.compositeTools[]."),
            ("VirtualMCPCompositeToolDefinition", "spec."),
        ],
        "CONDITIONS" => vec![
            ("VirtualMCPServer", "status.conditions[]."),
            ("MCPExternalAuthConfig", "status.conditions[]."),
        ],
        kind => vec![(kind, "")],
    }
}

#[test]
fn schemas_state_facts_of_specification() {
    let mut fields: BTreeMap<String, BTreeMap<String, (Value, bool)>> = BTreeMap::new();
    for (kind, schema) in schemas() {
        let mut required = BTreeSet::new();
        let mut of_kind = BTreeMap::new();
        visit(&schema, "", &mut |path, schema| {
            for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                required.insert(format!("{path}.{}", name.as_str().unwrap()));
            }
            of_kind.insert(path.to_owned(), (schema.clone(), required.contains(path)));
        });
        fields.insert(kind, of_kind);
    }
    let mut wrong = Vec::new();
    let lines = include_str!("fields.txt").lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let mut words = line.split(' ');
        let (shape, path) = (words.next().unwrap(), words.next().unwrap());
        let facts: Vec<_> = words.collect();
        for (kind, prefix) in places(shape) {
            let path = format!("{prefix}{path}");
            match fields[kind].get(&path) {
                Some((schema, required)) => {
                    let broken =
                        facts.iter().skip(1).filter(|fact| !holds(schema, fact, *required));
                    wrong.extend(broken.map(|fact| format!("{kind} {path}: {fact} in {schema}")));
                    if type_name(schema) != facts[0] {
                        wrong.push(format!("{kind} {path}: {} is {}", facts[0], type_name(schema)));
                    }
                    if *required && !facts.contains(&"required") {
                        wrong.push(format!("{kind} {path} is required"));
                    }
                }
                None => wrong.push(format!("{kind} {path} is absent")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn type_name(schema: &Value) -> &str {
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("integer"), Some(format)) => format,
        (Some(name), _) => name,
        (None, _) => "any",
    }
}

fn holds(schema: &Value, fact: &str, required: bool) -> bool {
    let Some((keyword, value)) = fact.split_once('=') else {
        return fact == "required" && required;
    };
    let actual = &schema[keyword];
    match keyword {
        "pattern" => {
            let (_, pattern) = PATTERNS.iter().find(|(name, _)| *name == value).unwrap();
            let actual = actual.as_str().unwrap_or_default();
            actual == *pattern || EQUIVALENT.contains(&(actual, pattern))
        }
        "enum" => {
            let mut expected: Vec<_> = value.split(',').collect();
            let mut actual: Vec<_> =
                actual.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            expected.sort_unstable();
            actual.sort_unstable();
            expected == actual
        }
        "default" if schema["type"] == "array" => {
            *actual == json!(value.split(',').collect::<Vec<_>>())
        }
        "default"
            if schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("(ns|us|")) =>
        {
            let parse = |text: &str| text.parse::<vmcp_config::Duration>().unwrap();
            actual.as_str().map(parse) == Some(parse(value))
        }
        "default" | "format" => {
            actual.as_str().map_or_else(|| actual.to_string(), str::to_owned) == value
        }
        _ => actual.as_f64() == value.parse().ok(),
    }
}

#[test]
fn conditions_of_all_kinds_have_one_shape() {
    let expected =
        schema("VirtualMCPServer")["properties"]["status"]["properties"]["conditions"].clone();
    for (kind, schema) in schemas() {
        let conditions = &schema["properties"]["status"]["properties"]["conditions"];
        assert_eq!(conditions["items"], expected["items"], "{kind}");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]), "{kind}");
    }
}
