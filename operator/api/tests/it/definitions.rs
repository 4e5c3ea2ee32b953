//! The committed definitions and the rules of Kubernetes for them.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};
use vmcp_structural_schema::Schema;

use crate::support::{schemas, visit};

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds")
}

#[test]
fn committed_definitions_are_up_to_date() {
    let mut written = BTreeSet::new();
    for definition in vmcp_api::definitions() {
        let file = format!("{}.yaml", definition.spec.names.plural);
        let committed = fs::read_to_string(folder().join(&file)).unwrap_or_default();
        let current = vmcp_api::to_yaml(&definition).unwrap();
        assert!(
            committed == current,
            "{file} differs; run: cargo run -p vmcp-api --example crdgen -- operator/crds"
        );
        written.insert(file);
    }
    let present: BTreeSet<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(present, written);
}

#[test]
fn definitions_fit_into_annotation() {
    for definition in vmcp_api::definitions() {
        // Client-side apply keeps the whole object in one annotation.
        let size = serde_json::to_string(&definition).unwrap().len();
        assert!(size < 256 * 1024, "{:?}: {size} bytes", definition.metadata.name);
    }
}

#[test]
fn definitions_are_namespaced_and_in_category() {
    for definition in vmcp_api::definitions() {
        let spec = definition.spec;
        assert_eq!(spec.group, vmcp_api::GROUP);
        assert_eq!(spec.scope, "Namespaced");
        assert_eq!(spec.names.categories, Some(vec!["mcp".to_owned()]));
        let [version] = &spec.versions[..] else { panic!("one version") };
        assert_eq!(version.name, vmcp_api::VERSION);
        assert!(version.served && version.storage);
        assert!(version.subresources.as_ref().unwrap().status.is_some());
    }
}

#[test]
fn kinds_have_short_names_and_columns() {
    let expected = [
        ("EmbeddingServer", "emb embedding", "Status Model Ready URL Age"),
        ("MCPExternalAuthConfig", "extauth mcpextauth", "Type Valid Age"),
        ("MCPGroup", "mcpg mcpgroup", "Servers Proxies Phase Checked Age"),
        ("MCPOIDCConfig", "mcpoidc", "Source Valid Age"),
        ("MCPRemoteProxy", "rp mcprp", "Phase Remote URL URL Ready Age"),
        ("MCPServerEntry", "mcpentry", "Phase Transport Remote URL Group Age"),
        ("MCPServer", "mcpserver", "Status Ready Replicas URL Age"),
        ("MCPTelemetryConfig", "mcpotel", "Endpoint Valid Tracing Metrics Age"),
        ("MCPToolConfig", "tc toolconfig", "Valid Age"),
        ("VirtualMCPCompositeToolDefinition", "vmcpctd compositetool", "Workflow Status Age Ready"),
        ("VirtualMCPServer", "vmcp virtualmcp", "Phase URL Backends Age Ready"),
    ];
    let actual: Vec<_> = vmcp_api::definitions()
        .into_iter()
        .map(|definition| {
            let columns = definition.spec.versions[0].additional_printer_columns.clone().unwrap();
            let columns: Vec<_> = columns.into_iter().map(|column| column.name).collect();
            let short_names = definition.spec.names.short_names.unwrap().join(" ");
            (definition.spec.names.kind, short_names, columns.join(" "))
        })
        .collect();
    let actual: Vec<_> =
        actual.iter().map(|(kind, names, columns)| (&**kind, &**names, &**columns)).collect();
    assert_eq!(actual, expected);
}

#[test]
fn columns_show_fields_of_schema() {
    for definition in vmcp_api::definitions() {
        let version = &definition.spec.versions[0];
        let schema = version.schema.clone().unwrap().open_api_v3_schema;
        let schema = serde_json::to_value(schema).unwrap();
        let mut paths = BTreeSet::new();
        visit(&schema, "", &mut |path, _| _ = paths.insert(path.to_owned()));
        for column in version.additional_printer_columns.clone().unwrap() {
            let path = column.json_path.trim_start_matches('.');
            let path = path.split('[').next().unwrap();
            assert!(path.starts_with("metadata.") || paths.contains(path), "{path}");
        }
    }
}

#[test]
fn schemas_are_structural() {
    const KEYWORDS: [&str; 25] = [
        "additionalProperties",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "pattern",
        "properties",
        "required",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
        "nullable",
    ];
    for (kind, schema) in schemas() {
        Schema::from_value(&schema).unwrap();
        visit(&schema, "", &mut |path, schema| {
            let object = schema.as_object().unwrap();
            for keyword in object.keys() {
                assert!(KEYWORDS.contains(&&**keyword), "{kind} {path}: {keyword}");
            }
            let is_true = |keyword: &str| schema.get(keyword) == Some(&json!(true));
            let free = is_true("x-kubernetes-preserve-unknown-fields");
            let typed = schema.get("type").is_some() || is_true("x-kubernetes-int-or-string");
            assert!(free || typed, "{kind} {path} has no type");
            let fields = schema.get("properties").is_some();
            assert!(!fields || schema.get("additionalProperties").is_none(), "{kind} {path}");
            check_list(&kind, path, schema);
        });
    }
}

/// Asserts that the keys of a list are required texts of its items.
fn check_list(kind: &str, path: &str, schema: &Value) {
    let Some(Value::Array(keys)) = schema.get("x-kubernetes-list-map-keys") else { return };
    let items = &schema["items"];
    for key in keys {
        let required = items["required"].as_array().unwrap();
        assert!(required.contains(key), "{kind} {path}: the key {key} is optional");
        assert_eq!(items["properties"][key.as_str().unwrap()]["type"], json!("string"));
    }
}

#[test]
fn only_templates_and_documents_are_free() {
    const FREE: [&str; 6] =
        ["podTemplateSpec", "parameters", "schema", "arguments", "defaultResults", "default"];
    for (kind, schema) in schemas() {
        visit(&schema, "", &mut |path, schema| {
            let free = schema.get("x-kubernetes-preserve-unknown-fields").is_some();
            let name = path.rsplit('.').next().unwrap();
            // Members of an output object nest without end.
            let nested = path.ends_with("output.properties[].properties[]");
            assert!(!free || nested || FREE.contains(&name), "{kind} {path}");
        });
    }
}

#[test]
fn spec_values_are_bounded() {
    for (kind, schema) in schemas() {
        visit(&schema["properties"]["spec"], "spec", &mut |path, schema| {
            let has = |keyword: &str| schema.get(keyword).is_some();
            let bounded = match schema.get("type").and_then(Value::as_str) {
                Some("string") => has("maxLength") || has("enum"),
                Some("array") => has("maxItems"),
                Some("object") => !has("additionalProperties") || has("maxProperties"),
                Some("integer") => has("format"),
                _ => true,
            };
            assert!(bounded, "{kind} {path} has no bound");
        });
    }
}
