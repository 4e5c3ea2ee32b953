//! Keys of Secrets and ConfigMaps that the configuration names.

use serde_json::{Value, json};

use super::{count_events, virtual_server};
use crate::support::{Cluster, resource_of};

fn secret(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data})
}

/// Returns an object of each kind that names the key `k` of the Secret `s`.
fn configs() -> [Value; 4] {
    let key = json!({"name": "s", "key": "k"});
    let inline =
        json!({"issuer": "https://id.example.com", "clientId": "tools", "clientSecretRef": key});
    let header = json!({"headerName": "X-Key", "valueSecretRef": key});
    let upstream = json!({"name": "okta", "type": "oidc", "oidcConfig": {
        "issuerUrl": "https://id.example.com", "clientId": "tools", "clientSecretRef": key,
    }});
    let issuer = json!({"issuer": "https://mcp.example.com", "upstreamProviders": [upstream]});
    let export = json!({
        "enabled": true, "endpoint": "https://otel.example", "tracing": {"enabled": true},
        "sensitiveHeaders": [{"name": "X-Key", "secretKeyRef": key}],
    });
    [
        resource_of("MCPOIDCConfig", "c", json!({"type": "inline", "inline": inline})),
        resource_of(
            "MCPExternalAuthConfig",
            "c",
            json!({"type": "headerInjection", "headerInjection": header}),
        ),
        resource_of(
            "MCPExternalAuthConfig",
            "c",
            json!({"type": "embeddedAuthServer", "embeddedAuthServer": issuer}),
        ),
        resource_of("MCPTelemetryConfig", "c", json!({"openTelemetry": export})),
    ]
}

#[tokio::test(start_paused = true)]
async fn missing_and_empty_keys_are_named() {
    let paths = [
        "spec.inline.clientSecretRef: ",
        "spec.headerInjection.valueSecretRef: ",
        "spec.embeddedAuthServer.upstreamProviders[0].oidcConfig.clientSecretRef: ",
        "spec.openTelemetry.sensitiveHeaders[0].secretKeyRef: ",
    ];
    for (config, path) in configs().into_iter().zip(paths) {
        let cluster = Cluster::running().await;
        let kind = config["kind"].as_str().unwrap();
        cluster.put(config.clone());
        cluster.settle().await;
        let found = || cluster.condition_of(kind, "c", "KeyRefsValidated").unwrap();
        let expected = format!("{path}key k of Secret s does not exist; create it with this key");
        assert_eq!(found(), ("False".to_owned(), "KeyRefNotFound".to_owned(), expected));
        let (valid, _, _) = cluster.condition_of(kind, "c", "Valid").unwrap();
        assert_eq!(valid, "True", "the configuration itself is valid");
        for data in [json!({"other": "eA=="}), json!({"k": ""})] {
            cluster.put(secret(data));
            cluster.settle().await;
            assert_eq!(found().1, "KeyRefNotFound");
        }
        assert_eq!(count_events(&cluster, "KeyRefNotFound"), 1);
        cluster.put(secret(json!({"k": "eA=="})));
        cluster.settle().await;
        assert_eq!(found().1, "KeyRefsValid");
        cluster.take_writes();
        cluster.put(secret(json!({"k": "eQ=="})));
        cluster.settle().await;
        assert_eq!(cluster.take_writes(), [""; 0], "a rotation changes no status");
    }
}

#[tokio::test(start_paused = true)]
async fn server_names_keys_itself() {
    let cluster = Cluster::running().await;
    let [oidc, ..] = configs();
    cluster.put(oidc);
    cluster.settle().await;
    let own = || cluster.reason_of("MCPOIDCConfig", "c", "KeyRefsValidated");
    assert_eq!(own(), "!KeyRefNotFound");
    cluster.put(virtual_server("MCPOIDCConfig", "a", "c"));
    cluster.settle().await;
    assert_eq!((own(), cluster.reason("a", "AuthConfigured")), ("-".into(), "!AuthInvalid".into()));
    cluster.delete("VirtualMCPServer", "a").await;
    cluster.settle().await;
    assert_eq!(own(), "!KeyRefNotFound");
}

#[tokio::test(start_paused = true)]
async fn optional_bundle_may_be_absent() {
    let cluster = Cluster::running().await;
    let config = |optional: bool| {
        let map = json!({"name": "ca", "key": "ca.crt", "optional": optional});
        let inline = json!({
            "issuer": "https://id.example.com", "clientId": "tools", "caBundleRef": {"configMapRef": map},
        });
        resource_of("MCPOIDCConfig", "c", json!({"type": "inline", "inline": inline}))
    };
    let reason = || cluster.reason_of("MCPOIDCConfig", "c", "KeyRefsValidated");
    cluster.put(config(false));
    cluster.settle().await;
    assert_eq!(reason(), "!KeyRefNotFound");
    cluster.put(config(true));
    cluster.settle().await;
    assert_eq!(reason(), "KeyRefsValid");
}
