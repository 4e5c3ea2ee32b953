//! Servers judged by themselves, without what they refer to.

use std::sync::Arc;

use serde_json::{Value, json};
use vmcp_api::{
    VirtualMCPServer,
    conversion::{Checks, ClusterDefaults, WarningReason, convert},
};

use super::{
    fixture::{case, inputs, names},
    full,
    shared::Lenient,
};

fn checks() -> Arc<dyn Checks> {
    Arc::new(Lenient)
}

fn server(change: impl FnOnce(&mut Value)) -> VirtualMCPServer {
    let mut server = json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": "VirtualMCPServer",
        "metadata": { "name": "a", "namespace": "tools" },
        "spec": { "groupRef": { "name": "g" }, "incomingAuth": { "type": "anonymous" } },
    });
    change(&mut server["spec"]);
    serde_json::from_value(server).unwrap()
}

fn errors(server: &VirtualMCPServer) -> Vec<String> {
    let errors = server.convert_standalone(&ClusterDefaults::default(), &checks()).err();
    errors.unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn accepts_servers_that_some_cluster_accepts() {
    let of_features = names().into_iter().map(|name| case(&name));
    let mut count = 0;
    for inputs in of_features.chain(full::cases().iter().map(|case| inputs(case))) {
        if convert(&inputs).is_ok() {
            count += 1;
            assert_eq!(errors(&inputs.server), [""; 0], "{}", inputs.name());
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn references_need_not_exist() {
    let server = server(|spec| {
        spec["incomingAuth"] = json!({
            "type": "oidc", "oidcConfigRef": { "name": "absent", "audience": "a" },
            "authzConfig": { "type": "configMap", "configMap": { "name": "absent" } },
        });
        spec["outgoingAuth"] = json!({ "source": "inline", "backends": { "b": {
            "type": "externalAuthConfigRef", "externalAuthConfigRef": { "name": "absent" },
        } } });
        spec["telemetryConfigRef"] = json!({ "name": "absent" });
        spec["embeddingServerRef"] = json!({ "name": "absent" });
        spec["sessionStorage"] = json!({
            "provider": "redis", "address": "r:6379",
            "passwordRef": { "name": "absent", "key": "k" },
        });
        spec["config"] = json!({
            "compositeToolRefs": [{ "name": "absent" }],
            "aggregation": { "tools": [{ "workload": "b", "toolConfigRef": { "name": "absent" } }] },
        });
    });
    let conversion = server.convert_standalone(&ClusterDefaults::default(), &checks()).unwrap();
    assert_eq!(conversion.warnings, []);
    assert_eq!(conversion.left_out, []);
}

#[test]
fn issuer_of_auth_server_is_that_of_callers() {
    for (issuer, is_valid) in [("https://m.example.com", true), ("not a url", false)] {
        let server = server(|spec| {
            spec["incomingAuth"] =
                json!({ "type": "oidc", "oidcConfigRef": { "name": "absent", "audience": "a" } });
            spec["authServerConfig"] = json!({
                "issuer": issuer,
                "upstreamProviders": [{ "name": "p", "type": "oidc", "oidcConfig": {
                    "issuerUrl": "https://p.example.com", "clientId": "c",
                } }],
            });
        });
        let errors = errors(&server);
        assert_eq!(errors.is_empty(), is_valid, "{errors:?}");
        assert!(errors.iter().all(|error| error.starts_with("spec.authServerConfig.issuer: ")));
    }
}

#[test]
fn names_mistakes_that_no_cluster_mends() {
    let found = errors(&server(|spec| {
        spec["incomingAuth"]["oidcConfigRef"] = json!({ "name": "absent", "audience": "a" });
        spec["sessionStorage"] = json!({ "provider": "memory", "address": "r:6379" });
    }));
    let paths: Vec<_> = found.iter().filter_map(|error| error.split_once(": ")).collect();
    let paths: Vec<_> = paths.iter().map(|(path, _)| *path).collect();
    assert_eq!(paths, ["spec.incomingAuth.oidcConfigRef", "spec.sessionStorage.address"]);
    let twice = json!({ "compositeToolRefs": [{ "name": "twice" }, { "name": "twice" }] });
    let found = errors(&server(|spec| spec["config"] = twice));
    assert!(found[0].starts_with("spec.config.compositeToolRefs[1].name: "), "{found:?}");
}

#[test]
fn server_without_name_is_judged() {
    let mut server = server(|_| {});
    server.metadata.name = None;
    assert_eq!(errors(&server), [""; 0]);
}

#[test]
fn warnings_are_those_of_the_server() {
    let server = server(|spec| {
        spec["config"] =
            json!({ "telemetry": { "endpoint": "https://c.example.com", "tracingEnabled": true } });
    });
    let conversion = server.convert_standalone(&ClusterDefaults::default(), &checks()).unwrap();
    let reasons: Vec<_> = conversion.warnings.iter().map(|warning| warning.reason).collect();
    assert_eq!(reasons, [WarningReason::InlineTelemetryDeprecated]);
}
