//! MCPServer and MCPRemoteProxy as MCPServerEntries for the Services that ToolHive's operator makes.

use serde_json::{Map, Value, json};

use crate::key::Kind;

/// Port of a Service without `spec.proxyPort`.
const PORT: u64 = 8080;

/// Fields that concern how ToolHive runs the server, which it goes on to do.
const WORKLOAD: [&str; 34] = [
    "allowPrivateEndpoint",
    "args",
    "audit",
    "authServerRef",
    "authzConfig",
    "authzConfigRef",
    "backendReplicas",
    "endpointPrefix",
    "env",
    "headerForward",
    "image",
    "imagePullSecrets",
    "mcpPort",
    "oidcConfig",
    "oidcConfigRef",
    "permissionProfile",
    "podTemplateSpec",
    "port",
    "proxyMode",
    "proxyPort",
    "rateLimiting",
    "remoteUrl",
    "remoteURL",
    "replicas",
    "resourceOverrides",
    "resources",
    "secrets",
    "serviceAccount",
    "sessionAffinity",
    "sessionStorage",
    "telemetryConfigRef",
    "transport",
    "trustProxyHeaders",
    "volumes",
];

/// Result for a backend.
pub(super) struct Converted {
    /// Spec of the MCPServerEntry.
    pub(super) spec: Option<Map<String, Value>>,
    /// Path and message of what has no counterpart.
    pub(super) notes: Vec<(String, String)>,
}

/// Converts a backend. One without a group has no counterpart.
pub(super) fn backend(
    kind: Kind,
    object: &Value,
    mut spec: Map<String, Value>,
    domain: &str,
) -> Converted {
    let mut notes = Vec::new();
    let Some(group) = spec.remove("groupRef") else {
        let message = "the resource is in no group, so that no server has it: it is left out";
        notes.push(("spec.groupRef".to_owned(), message.to_owned()));
        return Converted { spec: None, notes };
    };
    let is_sse = transport(&spec) == "sse";
    let url = object["status"]["url"].as_str().filter(|url| !url.is_empty());
    let url = url.map_or_else(|| service_url(kind, object, &spec, is_sse, domain), str::to_owned);
    let mut entry = Map::from_iter([
        ("groupRef".to_owned(), group),
        // A fragment tells ToolHive's own clients the name. No request has it.
        ("remoteUrl".to_owned(), url.split('#').next().unwrap_or_default().into()),
        ("transport".to_owned(), if is_sse { "sse" } else { "streamable-http" }.into()),
        // Services of the cluster are private.
        ("allowPrivateEndpoint".to_owned(), json!(true)),
    ]);
    if let Some(reference) = spec.remove("externalAuthConfigRef") {
        entry.insert("externalAuthConfigRef".to_owned(), reference);
    }
    for name in spec.keys() {
        let message = if WORKLOAD.contains(&name.as_str()) {
            continue;
        } else if name == "toolConfigRef" {
            "an MCPServerEntry has no tools of its own: name it in spec.config.aggregation.tools of the VirtualMCPServer"
        } else {
            "the field has no counterpart"
        };
        notes.push((format!("spec.{name}"), message.to_owned()));
    }
    let message = format!(
        "becomes an MCPServerEntry for its Service {}; ToolHive's operator has to go on to run it",
        entry["remoteUrl"]
    );
    notes.push(("spec".to_owned(), message));
    Converted { spec: Some(entry), notes }
}

/// Returns the transport of the Service: of a server that speaks on its standard input and output, that of its proxy.
fn transport(spec: &Map<String, Value>) -> &str {
    let text = |name: &str| spec.get(name).and_then(Value::as_str);
    match text("transport").unwrap_or("stdio") {
        "stdio" if spec.contains_key("image") => text("proxyMode").unwrap_or("streamable-http"),
        "sse" => "sse",
        _ => "streamable-http",
    }
}

fn service_url(
    kind: Kind,
    object: &Value,
    spec: &Map<String, Value>,
    is_sse: bool,
    domain: &str,
) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let port = spec.get("proxyPort").or_else(|| spec.get("port")).and_then(Value::as_u64);
    let port = port.unwrap_or(PORT);
    let end = if kind == Kind::MCPServer { "proxy" } else { "remote-proxy" };
    let path = if is_sse { "sse" } else { "mcp" };
    format!("http://mcp-{name}-{end}.{namespace}.svc.{domain}:{port}/{path}")
}
