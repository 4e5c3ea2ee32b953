//! Cases with every field that a conversion reads, made of the manifests that have every field.

use serde_json::{Value, json};

use super::fixture;
use crate::manifests::manifests;

const ISSUER: &str = "https://mcp.example.com";

/// Returns the manifests of each case.
pub(crate) fn cases() -> Vec<Vec<Value>> {
    vec![
        references(),
        inline(),
        other_storage(),
        other_strategies("server-literal", "a"),
        other_strategies("server-secret", "a"),
        other_strategies("server-injection", "b"),
        other_strategies("server-injection-default", "a"),
        other_strategies("server-strategies", "a"),
        external_auth(),
    ]
}

fn manifest(name: &str) -> Value {
    manifests().into_iter().find(|(other, _)| other == name).expect(name).1
}

fn member(name: &str, auth: Option<&str>) -> Value {
    let mut server = json!({
        "kind": "MCPServer", "metadata": { "name": name },
        "spec": { "image": "a" }, "status": { "url": format!("http://{name}") }
    });
    if let Some(auth) = auth {
        server["spec"]["externalAuthConfigRef"] = json!({ "name": auth });
    }
    server
}

fn oidc() -> Value {
    let mut oidc = manifest("oidc-inline");
    oidc["spec"]["inline"]["issuer"] = json!(ISSUER);
    oidc
}

fn embedding() -> Value {
    let mut embedding = manifest("embedding");
    embedding["status"] = json!({ "phase": "Ready", "readyReplicas": 1, "url": "http://embed" });
    embedding
}

fn full() -> Value {
    let mut server = manifest("server-full");
    let spec = &mut server["spec"];
    spec["podTemplateSpec"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{ "name": "logs", "mountPath": "/var/log/vmcp" }]);
    // Its replacement has a warning of its own.
    spec["config"].as_object_mut().unwrap().remove("incomingAuth");
    server
}

fn composite() -> Value {
    let mut definition = manifest("composite");
    definition["spec"]["name"] = json!("release");
    definition
}

/// All references of the server.
fn references() -> Vec<Value> {
    let mut exchange = manifest("auth-token-exchange");
    exchange["spec"]["tokenExchange"]["subjectProviderName"] = json!("okta");
    vec![
        full(),
        oidc(),
        manifest("telemetry"),
        embedding(),
        manifest("tool-config"),
        composite(),
        exchange,
        member("github", None),
        member("jira", None),
    ]
}

/// The sections of `spec.config` that references would replace.
fn inline() -> Vec<Value> {
    let mut server = full();
    let spec = server["spec"].as_object_mut().unwrap();
    for key in ["outgoingAuth", "sessionStorage", "telemetryConfigRef", "embeddingServerRef"] {
        spec.remove(key);
    }
    let mut manifests = vec![server, oidc(), manifest("tool-config"), composite()];
    manifests.extend(["github", "jira", "up", "aws", "literal"].map(|name| member(name, None)));
    manifests
}

/// A cluster of Redis, policies in a ConfigMap, and a role for all backends.
fn other_storage() -> Vec<Value> {
    let mut server = manifest("server-alternatives");
    let spec = &mut server["spec"];
    spec["config"]["outgoingAuth"]["default"]["awsSts"]["subjectProviderName"] = json!("hub");
    let policies =
        r#"{"type": "cedarv1", "cedar": {"policies": ["permit(principal, action, resource);"]}}"#;
    let config_map = json!({
        "kind": "ConfigMap", "metadata": { "name": "authz" }, "data": { "policies.json": policies }
    });
    vec![server, oidc(), config_map, member("github", None)]
}

/// Strategies in `spec.config` that exclude each other.
fn other_strategies(name: &str, backend: &str) -> Vec<Value> {
    let mut server = manifest(name);
    let strategies = fixture::manifests("strategies");
    server["spec"]["incomingAuth"] = strategies[0]["spec"]["incomingAuth"].clone();
    let storage = server["spec"]["authServerConfig"]["storage"].take();
    server["spec"]["authServerConfig"] = strategies[0]["spec"]["authServerConfig"].clone();
    if !storage.is_null() {
        server["spec"]["authServerConfig"]["storage"] = storage;
    }
    vec![server, oidc(), member(backend, None), member("other", None)]
}

/// Every kind of credentials, found by reference.
fn external_auth() -> Vec<Value> {
    let mut strategies = fixture::manifests("strategies");
    let mut found = vec![strategies.remove(0), oidc()];
    found[0]["spec"]["outgoingAuth"] = json!({ "source": "discovered" });
    for (name, mut config) in manifests() {
        if config["kind"] != "MCPExternalAuthConfig" || name.starts_with("auth-server") {
            continue;
        }
        for provider in
            ["/spec/tokenExchange/subjectProviderName", "/spec/awsSts/subjectProviderName"]
        {
            if let Some(provider) = config.pointer_mut(provider) {
                *provider = json!("okta");
            }
        }
        if let Some(provider) = config.pointer_mut("/spec/upstreamInject/providerName") {
            *provider = json!("okta");
        }
        found.push(member(&name, config["metadata"]["name"].as_str()));
        found.push(config);
    }
    let mut entry = manifest("entry");
    entry["status"] = json!({ "phase": "Valid" });
    entry["spec"].as_object_mut().unwrap().remove("externalAuthConfigRef");
    found.push(entry);
    found
}
