//! Each field of a status is written by the operator, or by another program that this file names.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::support::{Cluster, server};

/// Fields that the pods of a server write.
const OF_PODS: [&str; 2] = ["backendCount", "discoveredBackends"];

/// Fields of a workload that the product writes which runs it.
const OF_RUNTIME: [&str; 12] = [
    "authServerConfigHash",
    "authzConfigHash",
    "externalAuthConfigHash",
    "externalUrl",
    "message",
    "observedGeneration",
    "oidcConfigHash",
    "phase",
    "readyReplicas",
    "telemetryConfigHash",
    "toolConfigHash",
    "url",
];

/// Objects that have each field together, and the fields that others write.
const KINDS: [(&str, &[&str], &[&str]); 11] = [
    ("EmbeddingServer", &["embed"], &[]),
    ("MCPExternalAuthConfig", &["key"], &[]),
    ("MCPGroup", &["tools"], &[]),
    ("MCPOIDCConfig", &["idp"], &[]),
    ("MCPRemoteProxy", &["two"], &OF_RUNTIME),
    ("MCPServer", &["one"], &OF_RUNTIME),
    ("MCPServerEntry", &["entry"], &[]),
    ("MCPTelemetryConfig", &["otel"], &[]),
    ("MCPToolConfig", &["selection"], &[]),
    ("VirtualMCPCompositeToolDefinition", &["report", "invalid"], &[]),
    ("VirtualMCPServer", &["a"], &OF_PODS),
];

/// Returns the paths of the leaves of a schema below its status.
fn leaves(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        for (name, schema) in properties {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            leaves(schema, &path, found);
        }
    } else if schema["items"].is_object() {
        leaves(&schema["items"], &format!("{path}[]"), found);
    } else {
        found.insert(path.to_owned());
    }
}

/// Returns the paths of the leaves of a value.
fn present(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                present(value, &path, found);
            }
        }
        Value::Array(items) => {
            for item in items {
                present(item, &format!("{path}[]"), found);
            }
        }
        Value::Null => {}
        _ => {
            found.insert(path.to_owned());
        }
    }
}

fn status_schema(kind: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds");
    let mut definitions = std::fs::read_dir(folder).unwrap().map(|file| {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        serde_saphyr::from_str::<Value>(&text).unwrap()
    });
    let definition = definitions.find(|one| one["spec"]["names"]["kind"] == kind).unwrap();
    let version = &definition["spec"]["versions"][0];
    version["schema"]["openAPIV3Schema"]["properties"]["status"].clone()
}

fn resource(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "vmcp.dev/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Stores objects of all kinds, with references between them.
fn put_all(cluster: &Cluster) {
    let group = json!({"name": "tools"});
    cluster.put(resource("EmbeddingServer", "embed", json!({})));
    let inline = json!({"issuer": "https://id.example.com", "clientId": "tools"});
    cluster.put(resource("MCPOIDCConfig", "idp", json!({"type": "inline", "inline": inline})));
    let telemetry = json!({"openTelemetry": {
        "enabled": true, "endpoint": "https://otel.example", "tracing": {"enabled": true},
    }});
    cluster.put(resource("MCPTelemetryConfig", "otel", telemetry));
    let remote =
        json!({"remoteUrl": "https://e.example/mcp", "transport": "sse", "groupRef": group});
    cluster.put(resource("MCPServerEntry", "entry", remote));
    let auth_server = json!({"name": "key"});
    let one = json!({"image": "i", "groupRef": group, "authServerRef": auth_server});
    cluster.put(resource("MCPServer", "one", one));
    let proxy = json!({
        "remoteUrl": "https://p.example", "groupRef": group, "authServerRef": auth_server,
    });
    cluster.put(resource("MCPRemoteProxy", "two", proxy));
    cluster.put(resource("MCPExternalAuthConfig", "key", json!({"type": "unauthenticated"})));
    cluster.put(resource("MCPToolConfig", "selection", json!({"toolsFilter": ["read"]})));
    for (name, condition) in [("report", "{{true}}"), ("invalid", "{{")] {
        let steps = json!([{"id": "a", "tool": "b.c", "condition": condition}]);
        let tool = json!({"name": name, "steps": steps});
        cluster.put(resource("VirtualMCPCompositeToolDefinition", name, tool));
    }
    cluster.put(server("a", |spec| {
        spec["embeddingServerRef"] = json!({"name": "embed"});
        spec["config"] = json!({"compositeToolRefs": [{"name": "report"}]});
        spec["telemetryConfigRef"] = json!({"name": "otel"});
        spec["incomingAuth"] = json!({
            "type": "oidc", "oidcConfigRef": {"name": "idp", "audience": "https://a.example/mcp"},
        });
    }));
}

#[tokio::test(start_paused = true)]
async fn each_status_field_is_written() {
    let cluster = Cluster::running().await;
    put_all(&cluster);
    cluster.settle().await;
    let mut missing = BTreeSet::new();
    for (kind, names, of_others) in KINDS {
        let mut expected = BTreeSet::new();
        leaves(&status_schema(kind), "", &mut expected);
        let mut found = BTreeSet::new();
        for name in names {
            present(&cluster.get(kind, name)["status"], "", &mut found);
        }
        assert!(found.is_subset(&expected), "{kind}: {:?}", found.difference(&expected));
        let is_of_others = |field: &&String| {
            let end = field.find(['.', '[']).unwrap_or(field.len());
            of_others.contains(&&field[..end])
        };
        let written: Vec<_> = found.iter().filter(is_of_others).collect();
        assert_eq!(written, [""; 0], "{kind}: the operator writes fields of others");
        let missing_of_kind = expected.difference(&found).filter(|field| !is_of_others(field));
        missing.extend(missing_of_kind.map(|field| format!("{kind} {field}")));
    }
    assert_eq!(missing, BTreeSet::new());
}
