//! Configuration that servers and workloads share: verdict, references, and a deletion that waits for them.

mod deletion;
mod keys;
mod verdict;

use serde_json::{Value, json};

use super::support::{Cluster, resource_of, server};

/// Kinds of shared configuration with their resources.
const KINDS: [(&str, &str); 4] = [
    ("MCPExternalAuthConfig", "mcpexternalauthconfigs"),
    ("MCPOIDCConfig", "mcpoidcconfigs"),
    ("MCPTelemetryConfig", "mcptelemetryconfigs"),
    ("MCPToolConfig", "mcptoolconfigs"),
];

/// Returns a valid object of a kind, which `edition` changes.
fn config(kind: &str, name: &str, edition: &str) -> Value {
    let spec = match kind {
        "MCPExternalAuthConfig" => {
            let exchange =
                json!({"tokenUrl": "https://idp.example.com/token", "audience": edition});
            json!({"type": "tokenExchange", "tokenExchange": exchange})
        }
        "MCPOIDCConfig" => {
            let issuer = format!("https://{edition}.example.com");
            json!({"type": "inline", "inline": {"issuer": issuer, "clientId": "tools"}})
        }
        "MCPTelemetryConfig" => {
            let endpoint = format!("https://{edition}.example.com");
            json!({"openTelemetry": {"enabled": true, "endpoint": endpoint, "tracing": {"enabled": true}}})
        }
        "MCPToolConfig" => json!({"toolsFilter": [edition]}),
        other => panic!("{other}"),
    };
    resource_of(kind, name, spec)
}

/// Returns a VirtualMCPServer that refers to an object.
fn virtual_server(kind: &str, name: &str, config: &str) -> Value {
    let reference = json!({"name": config});
    server(name, |spec| match kind {
        "MCPExternalAuthConfig" => {
            let default =
                json!({"type": "externalAuthConfigRef", "externalAuthConfigRef": reference});
            spec["outgoingAuth"] = json!({"source": "inline", "default": default});
        }
        "MCPOIDCConfig" => {
            let oidc = json!({"name": config, "audience": format!("https://{name}.example/mcp")});
            spec["incomingAuth"] = json!({"type": "oidc", "oidcConfigRef": oidc});
        }
        "MCPTelemetryConfig" => spec["telemetryConfigRef"] = reference,
        "MCPToolConfig" => {
            let tools = json!([{"workload": "weather", "toolConfigRef": reference}]);
            spec["config"] = json!({"aggregation": {"tools": tools}});
        }
        other => panic!("{other}"),
    })
}

/// Returns an MCPServer or MCPRemoteProxy that refers to an object.
fn workload(referrer: &str, kind: &str, name: &str, config: &str) -> Value {
    let mut spec = match referrer {
        "MCPServer" => json!({"image": "example.com/server"}),
        _ => json!({"remoteUrl": "https://remote.example/mcp"}),
    };
    match kind {
        "MCPExternalAuthConfig" => spec["externalAuthConfigRef"] = json!({"name": config}),
        "MCPOIDCConfig" => spec["oidcConfigRef"] = json!({"name": config, "audience": "a"}),
        "MCPTelemetryConfig" => spec["telemetryConfigRef"] = json!({"name": config}),
        "MCPToolConfig" => spec["toolConfigRef"] = json!({"name": config}),
        other => panic!("{other}"),
    }
    resource_of(referrer, name, spec)
}

fn entry(name: &str, config: &str) -> Value {
    let spec = json!({
        "remoteUrl": "https://entry.example/mcp", "transport": "streamable-http",
        "groupRef": {"name": "tools"}, "externalAuthConfigRef": {"name": config},
    });
    resource_of("MCPServerEntry", name, spec)
}

/// Returns the number of events with a reason.
fn count_events(cluster: &Cluster, reason: &str) -> usize {
    let events = cluster.events();
    events.iter().filter(|line| line.split([' ', ':']).any(|word| word == reason)).count()
}
