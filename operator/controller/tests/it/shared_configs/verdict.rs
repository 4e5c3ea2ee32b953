//! Verdict, hash and references in the status.

use std::time::Duration;

use serde_json::json;

use super::{KINDS, config, count_events, entry, virtual_server, workload};
use crate::support::{Cluster, resource_of};

#[tokio::test(start_paused = true)]
async fn new_config_gets_finalizer_and_status() {
    for (kind, plural) in KINDS {
        let mut cluster = Cluster::running().await;
        cluster.put(config(kind, "c", "one"));
        cluster.settle().await;
        let line = |part: &str| format!("patch {plural}.vmcp.dev{part} default/c");
        assert_eq!(cluster.take_writes(), [line(""), line("/status")]);
        let object = cluster.get(kind, "c");
        assert_eq!(object["metadata"]["finalizers"], json!(["vmcp.dev/referenced"]), "{kind}");
        let status = &object["status"];
        assert_eq!(status["observedGeneration"], 1);
        assert_eq!(status["configHash"].as_str().unwrap().len(), 64);
        let (verdict, _, _) = cluster.condition_of(kind, "c", "Valid").unwrap();
        assert_eq!(verdict, "True", "{kind}");
        cluster.pass(Duration::from_hours(1)).await;
        cluster.stop().await;
        cluster.start().await;
        assert_eq!(cluster.take_writes(), [""; 0], "{kind}");
        assert_eq!(cluster.events(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn edited_config_gets_one_write() {
    for (kind, plural) in KINDS {
        let cluster = Cluster::running().await;
        cluster.put(config(kind, "c", "one"));
        cluster.settle().await;
        let before = cluster.get(kind, "c")["status"]["configHash"].clone();
        cluster.take_writes();
        cluster.put(config(kind, "c", "two"));
        cluster.settle().await;
        assert_eq!(cluster.take_writes(), [format!("patch {plural}.vmcp.dev/status default/c")]);
        let status = cluster.get(kind, "c")["status"].clone();
        assert_ne!(status["configHash"], before, "{kind}");
        assert_eq!(status["observedGeneration"], 2);
        // An equal spec has the hash of the first one.
        cluster.put(config(kind, "c", "one"));
        cluster.settle().await;
        assert_eq!(cluster.get(kind, "c")["status"]["configHash"], before);
    }
}

#[tokio::test(start_paused = true)]
async fn hash_equals_that_of_server() {
    let cluster = Cluster::running().await;
    for (kind, field) in
        [("MCPOIDCConfig", "oidcConfigHash"), ("MCPTelemetryConfig", "telemetryConfigHash")]
    {
        cluster.put(config(kind, "c", "one"));
        cluster.put(virtual_server(kind, field.to_lowercase().as_str(), "c"));
        cluster.settle().await;
        let hash = cluster.get(kind, "c")["status"]["configHash"].clone();
        assert_eq!(cluster.status(&field.to_lowercase())[field], hash, "{kind}");
    }
}

/// Mistakes that the API server lets through: kind, spec, reason of `Valid`, and parts of its message.
const MISTAKES: [(&str, &str, &str, &[&str]); 12] = [
    (
        "MCPExternalAuthConfig",
        "{type: tokenExchange, tokenExchange: {audience: a, tokenUrl: 'http://idp.example.com/token'}}",
        "!ValidationFailed",
        &["tokenUrl", "https"],
    ),
    (
        "MCPExternalAuthConfig",
        "{type: tokenExchange, tokenExchange: {audience: a, tokenUrl: idp}}",
        "!ValidationFailed",
        &["spec.tokenExchange.tokenUrl: found"],
    ),
    (
        "MCPExternalAuthConfig",
        "{type: headerInjection, headerInjection: {headerName: Host, valueSecretRef: {name: s, key: k}}}",
        "!ValidationFailed",
        &["headerName", "Host"],
    ),
    (
        "MCPExternalAuthConfig",
        "{type: headerInjection, headerInjection: {headerName: a b, valueSecretRef: {name: s, key: k}}}",
        "!ValidationFailed",
        &["spec.headerInjection.headerName: found"],
    ),
    (
        "MCPExternalAuthConfig",
        "{type: awsSts, awsSts: {region: eu-west-1, roleMappings: [{roleArn: 'arn:aws:iam::123456789012:role/reader', matcher: 'claims['}]}}",
        "!ValidationFailed",
        &["spec.awsSts.roleMappings[0].matcher: found", "CEL"],
    ),
    (
        "MCPOIDCConfig",
        "{type: inline, inline: {issuer: 'ftp://id.example.com'}}",
        "!ConfigInvalid",
        &["spec.inline.issuer: found"],
    ),
    (
        "MCPOIDCConfig",
        "{type: inline, inline: {issuer: 'http://id.example.com'}}",
        "!ConfigInvalid",
        &["spec.inline.issuer: found", "https"],
    ),
    (
        "MCPOIDCConfig",
        "{type: inline, inline: {issuer: 'https://id.example.com', jwksUrl: 'http://id.example.com/k'}}",
        "!ConfigInvalid",
        &["spec.inline.jwksUrl: found", "insecureAllowHTTP"],
    ),
    (
        "MCPOIDCConfig",
        "{type: inline, inline: {issuer: 'https://id.example.com', jwksAuthTokenPath: token}}",
        "!ConfigInvalid",
        &["spec.inline.jwksAuthTokenPath: found"],
    ),
    (
        "MCPTelemetryConfig",
        "{openTelemetry: {enabled: true, endpoint: 'http://otel.example', tracing: {enabled: true}}}",
        "!ValidationFailed",
        &["spec.openTelemetry.endpoint: found", "insecure"],
    ),
    (
        "MCPTelemetryConfig",
        "{openTelemetry: {enabled: true, endpoint: 'grpc://otel.example', tracing: {enabled: true}}}",
        "!ValidationFailed",
        &["endpoint: found another scheme"],
    ),
    (
        "MCPTelemetryConfig",
        "{openTelemetry: {enabled: true, endpoint: 'https://otel.example', tracing: {enabled: true}, sensitiveHeaders: [{name: a b, secretKeyRef: {name: s, key: k}}]}}",
        "!ValidationFailed",
        &["sensitiveHeaders[0].name: found"],
    ),
];

#[tokio::test(start_paused = true)]
async fn each_mistake_is_named() {
    for (kind, spec, reason, parts) in MISTAKES {
        let mut cluster = Cluster::running().await;
        cluster.put(resource_of(kind, "c", serde_saphyr::from_str(spec).unwrap()));
        cluster.settle().await;
        assert_eq!(cluster.reason_of(kind, "c", "Valid"), reason, "{spec}");
        let (_, _, message) = cluster.condition_of(kind, "c", "Valid").unwrap();
        assert!(parts.iter().all(|part| message.contains(part)), "{parts:?}: {message}");
        assert_eq!(count_events(&cluster, &reason[1..]), 1, "{:?}", cluster.events());
        cluster.stop().await;
        cluster.start().await;
        cluster.pass(Duration::from_hours(1)).await;
        assert_eq!(count_events(&cluster, &reason[1..]), 1, "the event is one of the transition");
        // A mended one recovers.
        cluster.put(config(kind, "c", "one"));
        cluster.settle().await;
        let (verdict, reason, _) = cluster.condition_of(kind, "c", "Valid").unwrap();
        assert_eq!(verdict, "True");
        assert_eq!(count_events(&cluster, &reason), 1, "{:?}", cluster.events());
    }
}

#[tokio::test(start_paused = true)]
async fn server_agrees_without_waiting_for_verdict() {
    let cluster = Cluster::running().await;
    let bad = json!({"type": "inline", "inline": {"issuer": "ftp://id.example.com"}});
    cluster.put(resource_of("MCPOIDCConfig", "c", bad));
    cluster.put(virtual_server("MCPOIDCConfig", "a", "c"));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "OIDCConfigRefValidated"), "!OIDCConfigRefNotValid");
    let (_, _, of_server) = cluster.condition("a", "OIDCConfigRefValidated").unwrap();
    let (_, _, own) = cluster.condition_of("MCPOIDCConfig", "c", "Valid").unwrap();
    assert!(of_server.contains(&own), "{of_server}: {own}");
    cluster.put(config("MCPOIDCConfig", "c", "one"));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "OIDCConfigRefValidated"), "OIDCConfigRefValid");
    // The verdict of another program is replaced, and no server follows it.
    let mut object = cluster.get("MCPOIDCConfig", "c");
    object["status"]["conditions"][0]["status"] = "False".into();
    cluster.take_writes();
    cluster.put_status(&object);
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), ["patch mcpoidcconfigs.vmcp.dev/status default/c"]);
    assert_eq!(cluster.reason_of("MCPOIDCConfig", "c", "Valid"), "ConfigValid");
}

#[tokio::test(start_paused = true)]
async fn edit_reconciles_server_once() {
    let cluster = Cluster::running().await;
    cluster.put(config("MCPOIDCConfig", "c", "one"));
    cluster.put(virtual_server("MCPOIDCConfig", "a", "c"));
    cluster.settle().await;
    cluster.take_writes();
    cluster.put(config("MCPOIDCConfig", "c", "two"));
    cluster.settle().await;
    let writes = cluster.take_writes();
    let status = "patch virtualmcpservers.vmcp.dev/status default/a";
    assert_eq!(writes.iter().filter(|line| *line == status).count(), 1, "{writes:?}");
    let own = "patch mcpoidcconfigs.vmcp.dev/status default/c";
    assert_eq!(writes.iter().filter(|line| *line == own).count(), 1, "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn credentials_list_workloads_that_use_them() {
    let cluster = Cluster::running().await;
    let kind = "MCPExternalAuthConfig";
    cluster.put(config(kind, "c", "one"));
    cluster.put(entry("e", "c"));
    cluster.put(virtual_server(kind, "b", "c"));
    cluster.put(virtual_server(kind, "a", "c"));
    let mut other = virtual_server(kind, "other", "another");
    let backend = json!({"type": "externalAuthConfigRef", "externalAuthConfigRef": {"name": "c"}});
    other["spec"]["outgoingAuth"]["backends"] = json!({"weather": backend});
    cluster.put(other);
    cluster.put(workload("MCPServer", kind, "one", "c"));
    cluster.put(workload("MCPRemoteProxy", kind, "two", "c"));
    let issuer = json!({"image": "i", "authServerRef": {"name": "c"}});
    cluster.put(resource_of("MCPServer", "issuer", issuer));
    // Nothing but its own references counts for a server that discovers credentials.
    cluster.put(resource_of(
        "VirtualMCPServer",
        "discovers",
        json!({
            "groupRef": {"name": "tools"}, "incomingAuth": {"type": "anonymous"},
        }),
    ));
    cluster.settle().await;
    let listed = cluster.get(kind, "c")["status"]["referencingWorkloads"].clone();
    let expected = [
        ("MCPRemoteProxy", "two"),
        ("MCPServer", "issuer"),
        ("MCPServer", "one"),
        ("VirtualMCPServer", "a"),
        ("VirtualMCPServer", "b"),
        ("VirtualMCPServer", "other"),
    ];
    assert_eq!(listed, json!(expected.map(|(kind, name)| json!({"kind": kind, "name": name}))));
    cluster.delete("VirtualMCPServer", "a").await;
    cluster.put(workload("MCPServer", kind, "one", "another"));
    cluster.settle().await;
    let listed = cluster.get(kind, "c")["status"]["referencingWorkloads"].clone();
    let names: Vec<_> =
        listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["two", "issuer", "b", "other"]);
}

#[tokio::test(start_paused = true)]
async fn identities_follow_sources_of_upstreams() {
    let cluster = Cluster::running().await;
    let kind = "MCPExternalAuthConfig";
    let endpoint = |path: &str| format!("https://id.example.com/{path}");
    let config = |with_user_info: bool| {
        let mut oauth2 = json!({
            "authorizationEndpoint": endpoint("authorize"), "tokenEndpoint": endpoint("token"),
            "clientId": "tools",
        });
        if with_user_info {
            oauth2["userInfo"] = json!({"endpointUrl": endpoint("userinfo")});
        }
        let upstream = json!({"name": "git", "type": "oauth2", "oauth2Config": oauth2});
        let server = json!({"issuer": "https://mcp.example.com", "upstreamProviders": [upstream]});
        resource_of(kind, "c", json!({"type": "embeddedAuthServer", "embeddedAuthServer": server}))
    };
    cluster.put(config(false));
    cluster.settle().await;
    let reason = || cluster.reason_of(kind, "c", "IdentitySynthesized");
    assert_eq!(reason(), "OAuth2UpstreamWithoutUserInfo");
    assert_eq!(count_events(&cluster, "OAuth2UpstreamWithoutUserInfo"), 1);
    cluster.put(config(true));
    cluster.settle().await;
    assert_eq!(reason(), "!AllUpstreamsHaveUserInfo");
    cluster.put(super::config(kind, "c", "one"));
    cluster.settle().await;
    assert_eq!(reason(), "-");
}

#[tokio::test(start_paused = true)]
async fn mistakes_of_auth_server_are_named() {
    let cluster = Cluster::running().await;
    let kind = "MCPExternalAuthConfig";
    let upstream = json!({"name": "okta", "type": "oidc", "oidcConfig": {
        "issuerUrl": "https://id.example.com", "clientId": "tools",
    }});
    let server = json!({"issuer": "http://mcp.example.com", "upstreamProviders": [upstream]});
    cluster.put(resource_of(
        kind,
        "c",
        json!({"type": "embeddedAuthServer", "embeddedAuthServer": server}),
    ));
    cluster.settle().await;
    let (_, reason, message) = cluster.condition_of(kind, "c", "Valid").unwrap();
    assert_eq!(reason, "ValidationFailed");
    assert!(message.contains("spec.embeddedAuthServer.issuer: found"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn foreign_conditions_and_finalizers_stay() {
    let mut cluster = Cluster::running().await;
    let mut object = config("MCPToolConfig", "c", "one");
    object["metadata"]["finalizers"] = json!(["example.com/audit"]);
    let condition = json!({
        "type": "example.com/Reviewed", "status": "True", "reason": "Reviewed", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    object["status"] = json!({"conditions": [condition]});
    cluster.put(object);
    cluster.settle().await;
    let object = cluster.get("MCPToolConfig", "c");
    let finalizers = json!(["example.com/audit", "vmcp.dev/referenced"]);
    assert_eq!(object["metadata"]["finalizers"], finalizers);
    assert_eq!(cluster.reason_of("MCPToolConfig", "c", "example.com/Reviewed"), "Reviewed");
    assert_eq!(cluster.reason_of("MCPToolConfig", "c", "Valid"), "ValidationSucceeded");
    cluster.take_writes();
    cluster.pass(Duration::from_hours(1)).await;
    cluster.stop().await;
    cluster.start().await;
    assert_eq!(cluster.take_writes(), [""; 0]);
    cluster.delete("MCPToolConfig", "c").await;
    cluster.settle().await;
    let object = cluster.get("MCPToolConfig", "c");
    assert_eq!(object["metadata"]["finalizers"], json!(["example.com/audit"]));
}
