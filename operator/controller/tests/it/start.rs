//! The planned pods start the real server: its configuration, arguments, variables and mounted files.

mod cluster;
mod discovered;
mod files;
mod pod;
mod replicas;
mod reports;
mod session;
mod together;

pub(crate) use self::pod::program;
use self::pod::{Pod, initialize};

/// Group and entry of all servers.
const GROUP: &str = "apiVersion: vmcp.dev/v1beta1
kind: MCPGroup
metadata: {name: tools, namespace: team}
spec: {}
";

/// Returns a server with fields besides those that are required. Its backends are in its configuration: a pod that discovers them
/// needs an API server.
fn server(fields: &str) -> String {
    let source = "  outgoingAuth: {source: inline}\n";
    let source = if fields.contains("outgoingAuth:") { "" } else { source };
    format!(
        "apiVersion: vmcp.dev/v1beta1\nkind: VirtualMCPServer\nmetadata: {{name: a, namespace: team}}\nspec:\n  groupRef: {{name: tools}}\n{source}{fields}\n---\n{GROUP}"
    )
}

/// Returns a server for callers without tokens.
fn anonymous(fields: &str) -> String {
    server(&format!("  incomingAuth: {{type: anonymous}}\n{fields}"))
}

/// Starts a server, and expects that it answers a client.
async fn answers(name: &str, manifests: &str) -> Pod {
    let pod = Pod::start(name, manifests);
    pod.until_ready().await;
    let response = pod.post("/mcp", &initialize()).await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert!(response.contains("\"serverInfo\""), "{response}");
    pod
}

/// Starts a server, and expects that it asks a client for a token.
async fn asks_for_token(name: &str, manifests: &str) -> Pod {
    let pod = Pod::start(name, manifests);
    pod.until_ready().await;
    let response = pod.post("/mcp", &initialize()).await;
    assert!(response.starts_with("HTTP/1.1 401 "), "{response}");
    assert!(response.to_lowercase().contains("www-authenticate: bearer"), "{response}");
    pod
}

#[tokio::test]
async fn anonymous_server_starts() {
    let pod = answers("anonymous", &anonymous("")).await;
    // The hosts of other Services are refused, so that a page in a browser cannot reach the server by DNS rebinding.
    let response = pod.post_to("other.example.com", "/mcp", &initialize()).await;
    assert!(
        response.starts_with("HTTP/1.1 403 ") || response.starts_with("HTTP/1.1 421 "),
        "{response}"
    );
}

#[tokio::test]
async fn oidc_server_starts() {
    let manifests = format!(
        "{}---\napiVersion: vmcp.dev/v1beta1\nkind: MCPOIDCConfig\nmetadata: {{name: idp, namespace: team}}\nspec: {{type: inline, inline: {{issuer: 'https://idp.invalid', clientId: c, introspectionUrl: 'https://idp.invalid/introspect', clientSecretRef: {{name: keys, key: idp}}, caBundleRef: {{configMapRef: {{name: ca, key: ca.crt}}}}}}}}\n",
        server(
            "  incomingAuth: {type: oidc, oidcConfigRef: {name: idp, audience: gateway, scopes: [mcp]}}"
        )
    );
    asks_for_token("oidc", &manifests).await;
}

#[tokio::test]
async fn server_with_policies_starts() {
    let manifests = format!(
        "{}---\napiVersion: vmcp.dev/v1beta1\nkind: MCPOIDCConfig\nmetadata: {{name: idp, namespace: team}}\nspec: {{type: inline, inline: {{issuer: 'https://idp.invalid', jwksUrl: 'https://idp.invalid/keys'}}}}\n",
        server(
            "  incomingAuth:\n    type: oidc\n    oidcConfigRef: {name: idp, audience: gateway}\n    authzConfig: {type: inline, inline: {policies: ['permit(principal, action, resource);']}}"
        )
    );
    asks_for_token("jwks", &manifests).await;
}

#[tokio::test]
async fn authorization_server_starts() {
    let manifests = format!(
        "{}---\napiVersion: vmcp.dev/v1beta1\nkind: MCPOIDCConfig\nmetadata: {{name: own, namespace: team}}\nspec: {{type: inline, inline: {{issuer: 'https://mcp.example.com'}}}}\n",
        server(
            "  incomingAuth: {type: oidc, oidcConfigRef: {name: own, audience: 'https://mcp.example.com/mcp', resourceUrl: 'https://mcp.example.com/mcp', scopes: [openid]}}
  authServerConfig:
    issuer: https://mcp.example.com
    signingKeySecretRefs: [{name: keys, key: signing.pem}]
    hmacSecretRefs: [{name: keys, key: hmac}]
    upstreamProviders:
    - name: hub
      type: oauth2
      oauth2Config: {authorizationEndpoint: 'https://hub.invalid/authorize', tokenEndpoint: 'https://hub.invalid/token', clientId: gateway, clientSecretRef: {name: keys, key: hub}, userInfo: {endpointUrl: 'https://hub.invalid/me'}}"
        )
    );
    let pod = asks_for_token("authorization-server", &manifests).await;
    let metadata = pod.get("/.well-known/oauth-authorization-server").await;
    assert!(metadata.contains("\"https://mcp.example.com\""), "{metadata}");
}

#[tokio::test]
async fn composite_tools_are_offered() {
    let pod = answers(
        "composite",
        &format!(
            "{}---\napiVersion: vmcp.dev/v1beta1\nkind: VirtualMCPCompositeToolDefinition\nmetadata: {{name: shared, namespace: team}}\nspec: {{name: shared, steps: [{{id: a, type: elicitation, message: m, schema: {{type: object}}}}]}}\n",
            anonymous("  config: {compositeToolRefs: [{name: shared}]}")
        ),
    )
    .await;
    assert!(pod.configuration().contains("name: shared"), "{}", pod.configuration());
}

#[tokio::test]
async fn tool_search_starts() {
    let manifests = format!(
        "{}---\napiVersion: vmcp.dev/v1beta1\nkind: EmbeddingServer\nmetadata: {{name: embed, namespace: team}}\nspec: {{}}\n",
        anonymous(
            "  embeddingServerRef: {name: embed}\n  config: {optimizer: {maxToolsToReturn: 5}}"
        )
    );
    answers("optimizer", &manifests).await;
}

#[tokio::test]
async fn telemetry_starts() {
    let manifests = format!(
        "{}---\napiVersion: vmcp.dev/v1beta1\nkind: MCPTelemetryConfig\nmetadata: {{name: otel, namespace: team}}\nspec: {{openTelemetry: {{enabled: true, endpoint: 'https://otel.invalid:4318', sensitiveHeaders: [{{name: Authorization, secretKeyRef: {{name: keys, key: otel}}}}], tracing: {{enabled: true}}, metrics: {{enabled: true}}, caBundleRef: {{configMapRef: {{name: ca, key: ca.crt}}}}}}, prometheus: {{enabled: true}}}}\n",
        anonymous("  telemetryConfigRef: {name: otel}")
    );
    answers("telemetry", &manifests).await;
}

#[tokio::test]
async fn audit_file_is_written() {
    let volume = pod::scratch("audit").join("logs");
    std::fs::create_dir_all(&volume).unwrap();
    let file = volume.join("audit.log");
    let manifests = anonymous(&format!(
        "  config: {{audit: {{enabled: true, logFile: '{}'}}}}\n  podTemplateSpec: {{spec: {{volumes: [{{name: logs, emptyDir: {{}}}}], containers: [{{name: vmcp, volumeMounts: [{{name: logs, mountPath: '{}'}}]}}]}}}}",
        file.display(),
        volume.display(),
    ));
    let pod = answers("audit", &manifests).await;
    pod.stop().await;
    let events = std::fs::read_to_string(file).unwrap();
    assert!(events.contains("mcp_initialize"), "{events}");
}

#[tokio::test]
async fn entry_with_bundle_and_headers_starts() {
    let manifests = format!(
        "{}---
apiVersion: vmcp.dev/v1beta1
kind: MCPServerEntry
metadata: {{name: api, namespace: team}}
spec:
  groupRef: {{name: tools}}
  remoteUrl: https://api.invalid/mcp
  transport: streamable-http
  headerForward:
    addPlaintextHeaders: {{X-Price: '${{5}}'}}
    addHeadersFromSecret: [{{headerName: X-Key, valueSecretRef: {{name: keys, key: header}}}}]
  caBundleRef: {{configMapRef: {{name: ca, key: ca.crt}}}}
---
apiVersion: vmcp.dev/v1beta1
kind: MCPExternalAuthConfig
metadata: {{name: injection, namespace: team}}
spec: {{type: headerInjection, headerInjection: {{headerName: X-Api-Key, valueSecretRef: {{name: keys, key: api}}}}}}
",
        anonymous("  outgoingAuth: {source: inline, backends: {api: {type: externalAuthConfigRef, externalAuthConfigRef: {name: injection}}}}")
    );
    let pod = answers("entry", &manifests).await;
    assert!(pod.configuration().contains("caBundlePath"), "{}", pod.configuration());
}

#[tokio::test]
async fn server_starts_without_its_redis() {
    let manifests = anonymous(
        "  sessionStorage: {provider: redis, address: '127.0.0.1:1', passwordRef: {name: keys, key: redis}}",
    );
    let pod = Pod::start("redis", &manifests);
    // A restart would not help, and Redis may come back at any time.
    pod.until_ready().await;
    assert!(pod.log().contains("failed to connect to Redis at 127.0.0.1:1"), "{}", pod.log());
}

#[tokio::test]
async fn server_with_replicas_starts() {
    let pod = answers("replicas", &anonymous("  replicas: 2")).await;
    let has = |start: &str| pod.arguments().iter().any(|one| one.starts_with(start));
    assert!(has("--peer-service=vmcp-a-peers.team.svc") && has("--seal-key="));
}
