//! Resources that servers share, judged by themselves.

use std::sync::Arc;

use serde_json::{Value, json};
use vmcp_api::{
    MCPExternalAuthConfig, MCPOIDCConfig, MCPTelemetryConfig, MCPToolConfig,
    conversion::{Checks, SharedResource},
};
use vmcp_config::{Cedar, CompositeTool, ConfigError, File, Strategy};

use super::full;

/// Checks that accept all that the parser does.
#[derive(Debug)]
pub(super) struct Lenient;

impl Checks for Lenient {
    fn policies(&self, _: &str, _: &Cedar) -> Vec<ConfigError> {
        Vec::new()
    }

    fn composite_tool(&self, _: &CompositeTool) -> Vec<ConfigError> {
        Vec::new()
    }

    fn strategy(&self, _: &Strategy) -> Vec<ConfigError> {
        Vec::new()
    }

    fn file(&self, _: &File) -> Vec<ConfigError> {
        Vec::new()
    }
}

fn errors<R: SharedResource>(resource: &R) -> Vec<String> {
    let checks: Arc<dyn Checks> = Arc::new(Lenient);
    resource.errors(&checks).iter().map(ToString::to_string).collect()
}

fn read<R: serde::de::DeserializeOwned>(kind: &str, spec: &Value) -> R {
    let object = json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": kind,
        "metadata": { "name": "shared", "namespace": "tools" }, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

#[test]
fn accepts_resources_of_valid_servers() {
    for manifest in full::cases().into_iter().flatten() {
        let found = match manifest["kind"].as_str().unwrap() {
            "MCPExternalAuthConfig" => {
                errors(&serde_json::from_value::<MCPExternalAuthConfig>(manifest.clone()).unwrap())
            }
            "MCPOIDCConfig" => {
                errors(&serde_json::from_value::<MCPOIDCConfig>(manifest.clone()).unwrap())
            }
            "MCPTelemetryConfig" => {
                errors(&serde_json::from_value::<MCPTelemetryConfig>(manifest.clone()).unwrap())
            }
            "MCPToolConfig" => {
                errors(&serde_json::from_value::<MCPToolConfig>(manifest.clone()).unwrap())
            }
            _ => continue,
        };
        assert_eq!(found, [""; 0], "{}", manifest["metadata"]["name"]);
    }
}

/// Tool configurations that an older schema accepted.
#[test]
fn names_path_in_tool_config() {
    let spec = json!({ "toolsOverride": { "read": { "name": "" }, "write": {} } });
    let found = errors(&read::<MCPToolConfig>("MCPToolConfig", &spec));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("spec.toolsOverride.read: "), "{found:?}");
}

#[test]
fn names_absent_section_of_type() {
    for (kind, section) in [
        ("tokenExchange", "tokenExchange"),
        ("headerInjection", "headerInjection"),
        ("bearerToken", "bearerToken"),
        ("awsSts", "awsSts"),
        ("upstreamInject", "upstreamInject"),
        ("embeddedAuthServer", "embeddedAuthServer"),
    ] {
        let config =
            read::<MCPExternalAuthConfig>("MCPExternalAuthConfig", &json!({ "type": kind }));
        let found = errors(&config);
        assert_eq!(found.len(), 1, "{kind}");
        assert!(found[0].starts_with(&format!("spec.{section}: found no value")), "{found:?}");
    }
}

/// An upstream provider is one of each server, and no error of the resource.
#[test]
fn provider_of_server_is_not_judged() {
    let inject = json!({ "type": "upstreamInject", "upstreamInject": { "providerName": "okta" } });
    let config = read::<MCPExternalAuthConfig>("MCPExternalAuthConfig", &inject);
    assert_eq!(errors(&config), [""; 0]);
}

#[test]
fn status_is_not_judged() {
    let spec = json!({ "type": "inline", "inline": { "issuer": "https://id.example.com" } });
    let mut config = read::<MCPOIDCConfig>("MCPOIDCConfig", &spec);
    let condition = json!({
        "type": "Valid", "status": "False", "reason": "X", "message": "x",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    config.status = serde_json::from_value(json!({ "conditions": [condition] })).unwrap();
    assert_eq!(errors(&config), [""; 0]);
}
