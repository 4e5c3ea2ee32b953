//! The JSON Schema is valid, helps an editor, and agrees with the parser.

use std::sync::LazyLock;

use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Value, json};
use vmcp_config::{Config, File, Format, config_schema, schema};

use crate::support::FULL;

/// Rules that the schema cannot express: rules between values, arithmetic on text, and URL forms beyond a prefix. The
/// schema may accept a document that violates only these.
const BEYOND_THE_SCHEMA: &[&str] = &[
    "db: 0 with clusterMode",
    "a value that no other entry has",
    "each backend once",
    "an absolute http:// or https:// URL with a host",
    "an https:// URL (http:// on loopback)",
    "an https:// issuer, or insecureAllowHttp",
    "an absolute path without ..",
    "authServer.issuer",
    "an upstream provider of authServer",
    "a listed variable",
    "each header once",
    "oidc, with the issuer of authServer",
    "a duration of more than 0s",
    "a duration of at least 1s",
    "less than healthCheckInterval",
    "a decimal number from 0 to",
    "endpoint only with",
    "caCertPath only without insecure",
    "at least one backend with conflictResolution: priority",
    "at least one entry with conflictResolution: manual",
    "prefixFormat only with",
    "priorityOrder only with",
    "backends only with outgoingAuth.source: inline",
    "fallbackRoleArn, or at least one mapping",
    "clusterMode together with addr",
    "parameters other than",
    "a JSON array of Cedar entities",
    "the id of a step of this tool",
    "dependsOn without cycles",
    "workload.tool_name",
    "object",
    "another name; index",
    "the name of a property",
    "the name of an HTTP header field",
    "host:port",
];

fn validator() -> Validator {
    jsonschema::draft202012::new(&schema()).unwrap()
}

fn full() -> Value {
    serde_saphyr::from_str(FULL).unwrap()
}

/// Returns the disagreement between parser and schema about `document`, if there is one.
fn disagreement(validator: &Validator, document: &Value) -> Option<String> {
    let valid = validator.validate(document);
    match (File::parse(&document.to_string(), Format::Json), valid) {
        (Ok(_), Ok(())) | (Err(_), Err(_)) => None,
        (Ok(_), Err(error)) => {
            Some(format!("only the schema refuses: {error} at {}", error.instance_path()))
        }
        (Err(errors), Ok(())) => {
            let odd = errors
                .iter()
                .find(|m| !BEYOND_THE_SCHEMA.iter().any(|rule| m.allowed.starts_with(rule)));
            odd.map(|error| format!("only the parser refuses: {error}"))
        }
    }
}

#[test]
fn both_schemas_are_valid_2020_12() {
    for schema in [schema(), config_schema()] {
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        jsonschema::draft202012::meta::validate(&schema).unwrap();
    }
}

#[test]
fn every_property_has_description_and_objects_are_closed() {
    fn walk(schema: &Value, path: &str) {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            assert_eq!(schema["additionalProperties"], json!(false), "{path}");
            for (name, property) in properties {
                let description = property["description"].as_str().unwrap_or_default();
                assert!(description.len() > 3, "{path}.{name}");
            }
        }
    }
    let schema = schema();
    walk(&schema, "File");
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        walk(definition, name);
    }
}

#[test]
fn schema_has_defaults_enums_patterns_and_limits() {
    let schema = schema();
    let definition = |name: &str, field: &str| schema["$defs"][name]["properties"][field].clone();
    assert_eq!(definition("Timeouts", "default")["default"], "30s");
    assert_eq!(
        definition("Timeouts", "default")["pattern"],
        "^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"
    );
    assert_eq!(definition("BackendOfFile", "transport")["enum"], json!(["sse", "streamable-http"]));
    assert_eq!(definition("Optimizer", "maxToolsToReturn")["maximum"], 50);
    assert_eq!(schema["required"], json!(["name", "incomingAuth"]));
    assert_eq!(definition("WorkloadToolsOfNever", "toolConfigRef"), Value::Null);
}

#[test]
fn schema_accepts_document_with_every_key() {
    assert_eq!(disagreement(&validator(), &full()), None);
    assert!(validator().is_valid(&full()));
}

/// JSON pointers to every value within `value`.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                pointers(
                    inner,
                    &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")),
                    all,
                );
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                pointers(inner, &format!("{at}/{index}"), all);
            }
        }
        _ => {}
    }
}

fn junk() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-1),
        json!(7.0),
        json!(1.5),
        json!(51),
        json!(1e12),
        json!(""),
        json!("x"),
        json!("0s"),
        json!("1h"),
        json!("0.3"),
        json!("https://x"),
        json!("http://x"),
        json!("/x"),
        json!("entry"),
        json!("redis"),
        json!("memory"),
        json!("oidc"),
        json!("priority"),
        json!("manual"),
        json!("retry"),
        json!("elicitation"),
        json!([]),
        json!([""]),
        json!(["a"]),
        json!([1]),
        json!({}),
        json!({"x": "y"}),
    ]
}

fn replace(document: &Value, pointer: &str, junk: Value) -> Value {
    let mut document = document.clone();
    if let Some(place) = document.pointer_mut(pointer) {
        *place = junk;
    }
    document
}

fn remove(document: &Value, pointer: &str) -> Value {
    let mut document = document.clone();
    let Some((parent, key)) = pointer.rsplit_once('/') else { return document };
    match document.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.remove(&key.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(items)) => {
            items.remove(key.parse().unwrap());
        }
        _ => {}
    }
    document
}

/// Valid documents that hold every key between them. Small, because each is checked in thousands of variations.
fn parts() -> Vec<Value> {
    let full = full();
    let with_issuer = ["name", "incomingAuth", "outgoingAuth", "authServer"];
    let mut parts = vec![json!({})];
    for key in with_issuer {
        parts[0][key] = full[key].clone();
    }
    for (key, value) in full.as_object().unwrap() {
        if !with_issuer.contains(&key.as_str()) {
            let mut part =
                json!({"name": "x", "incomingAuth": {"type": "anonymous"}, (key.clone()): value});
            // Placeholders in backends read them.
            if key == "backends" {
                part["variables"] = full["variables"].clone();
            }
            parts.push(part);
        }
    }
    parts
}

#[test]
fn parser_and_schema_agree_on_single_changes() {
    let validator = validator();
    let mut odd = Vec::new();
    let mut count = 0;
    let mut look = |document: Value, what: String| {
        count += 1;
        if let Some(words) = disagreement(&validator, &document) {
            odd.push(format!("{what}: {words}"));
        }
    };
    for part in parts() {
        assert!(File::parse(&part.to_string(), Format::Json).is_ok(), "{part}");
        let mut all = Vec::new();
        pointers(&part, "", &mut all);
        for pointer in &all {
            for junk in junk() {
                look(replace(&part, pointer, junk.clone()), format!("{pointer} = {junk}"));
            }
            look(remove(&part, pointer), format!("{pointer} removed"));
            if part.pointer(pointer).is_some_and(Value::is_object) {
                let mut more = part.clone();
                more.pointer_mut(pointer).unwrap()["extra"] = json!("x");
                look(more, format!("{pointer}/extra added"));
            }
        }
    }
    assert!(odd.is_empty(), "{} of {count}:\n{}", odd.len(), odd[..odd.len().min(30)].join("\n"));
    assert!(count > 10_000, "{count}");
}

#[test]
fn resource_schema_has_references_but_no_authorization_server() {
    let validator = jsonschema::draft202012::new(&config_schema()).unwrap();
    for (document, good) in [
        (json!({}), true),
        (json!({"compositeToolRefs": [{"name": "a"}]}), true),
        (
            json!({"aggregation": {"tools": [{"workload": "a", "toolConfigRef": {"name": "b"}}]}}),
            true,
        ),
        (json!({"authServer": {}}), false),
        (json!({"compositeToolRefs": [{"name": ""}]}), false),
    ] {
        assert_eq!(validator.is_valid(&document), good, "{document}");
        assert_eq!(Config::parse(&document.to_string(), Format::Json).is_ok(), good, "{document}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn parser_and_schema_agree_on_combined_changes(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()), 1..5)) {
        static VALIDATOR: LazyLock<Validator> = LazyLock::new(validator);
        let mut document = full();
        for (place, value, gone) in changes {
            let mut all = Vec::new();
            pointers(&document, "", &mut all);
            let pointer = place.get(&all);
            document = if gone { remove(&document, pointer) } else { replace(&document, pointer, value.get(&junk()).clone()) };
        }
        prop_assert_eq!(disagreement(&VALIDATOR, &document), None, "{}", document);
    }
}

#[test]
fn editor_schema_has_no_keyword_of_kubernetes() {
    for schema in [vmcp_config::schema(), vmcp_config::config_schema()] {
        assert!(!schema.to_string().contains("x-kubernetes-"));
    }
}

#[test]
fn reads_part_of_resource_from_json() {
    let value =
        serde_json::json!({ "issuer": "https://a", "upstreamProviders": [{ "name": "a" }] });
    let errors = vmcp_config::from_json::<vmcp_config::AuthServer<vmcp_config::SecretRef>>(&value)
        .unwrap_err()
        .to_string();
    assert!(errors.contains("upstreamProviders[0].type"), "{errors}");
}
