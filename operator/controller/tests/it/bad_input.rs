//! Invalid resources, and valid ones at the limits: each ends in a condition, and nothing else is disturbed.

use serde_json::{Value, json};
use vmcp_api::names::{config_map_name, deployment_name, service_name};

use super::support::{Cluster, server};

const ISSUER: &str = "https://mcp.example.com";

fn resource(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "vmcp.dev/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn provider() -> Value {
    let inline = json!({"issuer": ISSUER, "clientId": "tools"});
    resource("MCPOIDCConfig", "idp", json!({"type": "inline", "inline": inline}))
}

fn upstream(name: &str) -> Value {
    let oidc = json!({"issuerUrl": "https://id.example.com", "clientId": "tools"});
    json!({"name": name, "type": "oidc", "oidcConfig": oidc})
}

/// Returns a server that is an issuer, and requires an audience of its own.
fn issuing(name: &str, issuer: &str) -> Value {
    let url = format!("{issuer}/mcp");
    server(name, |spec| {
        let oidc = json!({"name": "idp", "audience": format!("{url}/{name}"), "resourceUrl": url});
        spec["incomingAuth"] = json!({"type": "oidc", "oidcConfigRef": oidc});
        spec["authServerConfig"] =
            json!({"issuer": issuer, "upstreamProviders": [upstream("okta")]});
    })
}

/// Returns a server with policies of a ConfigMap.
fn with_policies() -> Value {
    server("a", |spec| {
        spec["incomingAuth"] = json!({
            "type": "oidc", "oidcConfigRef": {"name": "idp", "audience": "api"},
            "authzConfig": {"type": "configMap", "configMap": {"name": "policies"}},
        });
    })
}

/// Change of a spec, with the reason that it has and the beginning of the message.
type Mistake<'c> = (&'c dyn Fn(&mut Value), &'c str, &'c str);

fn put_namespace(cluster: &Cluster, name: &str) {
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
}

#[tokio::test(start_paused = true)]
async fn shared_issuer_names_other_server() {
    let cluster = Cluster::running().await;
    cluster.put(provider());
    cluster.put(issuing("a", ISSUER));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "IssuerUnique"), "IssuerUnique");
    put_namespace(&cluster, "team");
    let mut other = issuing("b", ISSUER);
    other["metadata"]["namespace"] = "team".into();
    cluster.put(other.clone());
    cluster.put(issuing("c", ISSUER));
    cluster.settle().await;
    let (status, reason, message) = cluster.condition("a", "IssuerUnique").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "IssuerShared"));
    assert!(message.contains("default/c, team/b"), "{message}");
    assert_eq!(cluster.reason("c", "IssuerUnique"), "!IssuerShared");
    let events = cluster.events();
    assert!(events.iter().any(|line| line.starts_with("Warning IssuerShared")), "{events:?}");
    other["spec"]["authServerConfig"]["issuer"] = "https://b.example.com".into();
    cluster.put(other);
    cluster.delete("VirtualMCPServer", "c").await;
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "IssuerUnique"), "IssuerUnique");
}

#[tokio::test(start_paused = true)]
async fn each_mistake_of_auth_server_has_its_reason() {
    let cluster = Cluster::running().await;
    cluster.put(provider());
    let policies = |provider: &str| {
        json!({"type": "inline", "inline": {
            "policies": ["permit(principal, action, resource);"], "primaryUpstreamProvider": provider,
        }})
    };
    let cases: [Mistake<'_>; 5] = [
        (&|_| {}, "AuthServerConfigValid", ""),
        (
            &|spec| spec["authServerConfig"]["issuer"] = "https://other.example.com".into(),
            "!AuthServerConfigInvalid",
            "spec.authServerConfig.issuer: ",
        ),
        (
            &|spec| spec["incomingAuth"]["authzConfig"] = policies("nobody"),
            "!AuthzUpstreamUnknown",
            "spec.incomingAuth.authzConfig.inline.primaryUpstreamProvider: ",
        ),
        (
            &|spec| {
                spec["incomingAuth"]["authzConfig"] = policies("okta");
                spec.as_object_mut().unwrap().remove("authServerConfig");
            },
            "!AuthzPrimaryProviderRequiresAuthServer",
            "spec.incomingAuth.authzConfig.inline.primaryUpstreamProvider: ",
        ),
        (
            &|spec| spec["incomingAuth"]["authzConfig"] = policies("okta"),
            "AuthServerConfigValid",
            "",
        ),
    ];
    for (change, expected, path) in cases {
        let mut server = issuing("a", ISSUER);
        change(&mut server["spec"]);
        cluster.put(server);
        cluster.settle().await;
        let status = cluster.status("a");
        assert_eq!(cluster.reason("a", "AuthServerConfigValidated"), expected, "{status:#}");
        let (_, _, message) = cluster.condition("a", "AuthServerConfigValidated").unwrap();
        assert!(message.starts_with(path), "{message}");
        assert_eq!(status["phase"] == "Failed", expected.starts_with('!'), "{expected}");
    }
    // Without an authorization server there is nothing to tell.
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "AuthServerConfigValidated"), "-");
}

#[tokio::test(start_paused = true)]
async fn references_never_reach_other_namespaces() {
    let cluster = Cluster::running().await;
    put_namespace(&cluster, "other");
    let there = |mut object: Value| {
        object["metadata"]["namespace"] = "other".into();
        cluster.put(object);
    };
    there(resource("MCPGroup", "far", json!({})));
    there(provider());
    there(resource("MCPTelemetryConfig", "far", json!({"prometheus": {"enabled": true}})));
    there(resource("MCPToolConfig", "far", json!({"toolsFilter": ["a"]})));
    there(resource("EmbeddingServer", "far", json!({})));
    let steps = json!([{"id": "s", "type": "tool", "tool": "a.b"}]);
    let definition = json!({"name": "far", "description": "d", "steps": steps});
    there(resource("VirtualMCPCompositeToolDefinition", "far", definition));
    there(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "far"}, "data": {"k": "eA=="}}),
    );
    cluster.settle().await;
    let reference = json!({"name": "far"});
    let oidc = json!({"type": "oidc", "oidcConfigRef": {"name": "idp", "audience": "api"}});
    let redis = json!({"provider": "redis", "address": "redis:6379", "passwordRef": {"name": "far", "key": "k"}});
    let tools = json!({"aggregation": {"tools": [{"workload": "w", "toolConfigRef": reference}]}});
    for (change, kind, reason) in [
        (json!({"groupRef": reference}), "GroupRefValidated", "!GroupRefNotFound"),
        (json!({"incomingAuth": oidc}), "OIDCConfigRefValidated", "!OIDCConfigRefNotFound"),
        (
            json!({"telemetryConfigRef": reference}),
            "TelemetryConfigRefValidated",
            "!TelemetryConfigRefNotFound",
        ),
        (
            json!({"embeddingServerRef": reference}),
            "EmbeddingServerReady",
            "!EmbeddingServerNotFound",
        ),
        (
            json!({"config": {"compositeToolRefs": [reference]}}),
            "CompositeToolRefsValidated",
            "!CompositeToolRefNotFound",
        ),
        (json!({"sessionStorage": redis}), "AuthConfigured", "!AuthInvalid"),
        (json!({"config": tools}), "Valid", "!ValidationFailed"),
    ] {
        let change = change.as_object().unwrap().clone();
        cluster.put(server("a", |spec| spec.as_object_mut().unwrap().extend(change)));
        cluster.settle().await;
        assert_eq!(cluster.reason("a", kind), reason, "{:#}", cluster.status("a"));
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_of_other_namespaces_leave_backend_out() {
    let cluster = Cluster::running().await;
    put_namespace(&cluster, "other");
    let mut far = resource("MCPExternalAuthConfig", "far", json!({"type": "unauthenticated"}));
    far["metadata"]["namespace"] = "other".into();
    cluster.put(far);
    cluster.put(resource(
        "MCPServerEntry",
        "e",
        json!({
            "remoteUrl": "https://e.example/mcp", "transport": "sse", "groupRef": {"name": "tools"},
            "externalAuthConfigRef": {"name": "far"},
        }),
    ));
    cluster.put(server("a", |spec| spec["outgoingAuth"] = json!({"source": "inline"})));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "MembersIncluded"), "!MembersLeftOut");
}

#[tokio::test(start_paused = true)]
async fn names_at_limits_have_objects() {
    let cluster = Cluster::running().await;
    let long = "n".repeat(253);
    let label = "n".repeat(63);
    for name in [&*label, &*long, "a.b.c", "0"] {
        cluster.put(resource("MCPGroup", name, json!({})));
        let remote = json!({
            "remoteUrl": "https://e.example/mcp", "transport": "sse", "groupRef": {"name": name},
        });
        cluster.put(resource("MCPServerEntry", name, remote));
        cluster.put(server(name, |spec| {
            spec["groupRef"] = json!({"name": name});
            spec["outgoingAuth"] = json!({"source": "inline"});
        }));
        cluster.put(resource("EmbeddingServer", name, json!({})));
    }
    cluster.settle().await;
    for name in [&*label, &*long, "a.b.c", "0"] {
        assert_eq!(cluster.reason(name, "ObjectsApplied"), "ObjectsApplied", "{name}");
        assert!(cluster.find("Deployment", &deployment_name(name)).is_some(), "{name}");
        assert!(cluster.find("Service", &service_name(name)).is_some(), "{name}");
        let map = cluster.get("ConfigMap", &config_map_name(name));
        let text = map["data"]["config.yaml"].as_str().unwrap();
        let included = cluster.condition(name, "MembersIncluded").unwrap();
        assert_eq!(included.1, "AllMembersIncluded", "{}", included.2);
        let config: Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(config["name"], name);
        assert_eq!(config["backends"][0]["name"], name);
        let embedding = cluster.get("EmbeddingServer", name)["status"].clone();
        assert_eq!(embedding["phase"], "Pending", "{embedding:#}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_policies_of_config_map_are_named() {
    let cluster = Cluster::running().await;
    cluster.put(provider());
    cluster.put(with_policies());
    let document = |policy: &str, entities: &str| {
        json!({"version": "1", "type": "cedarv1", "cedar": {"policies": [policy], "entities_json": entities}})
            .to_string()
    };
    let valid = document("permit(principal, action, resource);", "[]");
    cluster.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "policies"}, "data": {"authz.json": valid}}));
    cluster.settle().await;
    let deployment = cluster.get("Deployment", "a-vmcp");
    assert_eq!(cluster.reason("a", "AuthConfigured"), "AuthValid");
    for text in [
        "{".to_owned(),
        String::new(),
        "[]".to_owned(),
        document("permit(principal, action);", "[]"),
        document("permit(principal, action, resource);", "{}"),
        document("permit(principal, action, resource);", "[{}]"),
    ] {
        cluster.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "policies"}, "data": {"authz.json": text}}));
        cluster.settle().await;
        let (_, reason, message) = cluster.condition("a", "AuthConfigured").unwrap();
        assert_eq!(reason, "AuthInvalid", "{text}: {message}");
        assert!(message.starts_with("spec.incomingAuth.authzConfig.configMap: "), "{message}");
        assert_eq!(cluster.status("a")["phase"], "Failed", "{text}");
        // The pods keep the policies that were valid.
        assert_eq!(cluster.get("Deployment", "a-vmcp"), deployment, "{text}");
    }
    cluster.delete("ConfigMap", "policies").await;
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "AuthConfigured"), "!AuthInvalid");
    let (_, _, message) = cluster.condition("a", "AuthConfigured").unwrap();
    assert!(message.ends_with("key authz.json of ConfigMap policies does not exist"), "{message}");
    let events = cluster.events();
    let is_invalid = |line: &String| line.starts_with("Warning AuthzConfigMapInvalid");
    assert!(events.iter().any(is_invalid), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn unusable_secret_of_server_is_named() {
    let cluster = Cluster::running().await;
    let redis = json!({"provider": "redis", "address": "redis:6379", "passwordRef": {"name": "redis", "key": "password"}});
    cluster.put(server("a", |spec| spec["sessionStorage"] = redis));
    for data in [json!({"password": ""}), json!({"other": "eA=="}), json!({})] {
        cluster.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "redis"}, "data": data}));
        cluster.settle().await;
        let (status, reason, message) = cluster.condition("a", "AuthConfigured").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", "AuthInvalid"));
        assert!(message.starts_with("spec.sessionStorage.passwordRef"), "{message}");
        assert!(cluster.find("Deployment", "a-vmcp").is_none());
    }
    cluster.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "redis"}, "data": {"password": "eA=="}}));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "AuthConfigured"), "AuthValid");
}
