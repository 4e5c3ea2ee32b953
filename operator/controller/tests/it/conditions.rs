//! Conditions and phase of a server.

use serde_json::{Value, json};
use vmcp_kube_fixture::{Fault, FaultRule};

use super::support::{Cluster, server};

/// Returns the reasons of a condition for a sequence of changes.
async fn reasons(cluster: &Cluster, kind: &str, changes: &[&dyn Fn(&Cluster)]) -> Vec<String> {
    let mut reasons = Vec::new();
    for change in changes {
        change(cluster);
        cluster.settle().await;
        reasons.push(cluster.reason("a", kind));
    }
    reasons
}

fn resource(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "vmcp.dev/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn oidc(name: &str, audience: &str) -> Value {
    let audience = audience.to_owned();
    server(name, move |spec| {
        spec["incomingAuth"] =
            json!({"type": "oidc", "oidcConfigRef": {"name": "idp", "audience": audience}});
    })
}

fn provider(inline: Value) -> Value {
    resource("MCPOIDCConfig", "idp", json!({"type": "inline", "inline": inline}))
}

/// Prevents the operator from writing the status of groups.
fn hold_groups(cluster: &Cluster) {
    let rule = FaultRule::new(Fault::Status(500)).on_writes().on_resource("mcpgroups");
    cluster.server.disturb(rule);
}

#[tokio::test(start_paused = true)]
async fn group_decides_first() {
    let mut cluster = Cluster::new();
    hold_groups(&cluster);
    cluster.start().await;
    let found = reasons(
        &cluster,
        "GroupRefValidated",
        &[
            &|cluster| cluster.put(server("a", |_| {})),
            &|cluster| cluster.put_group(),
            &|cluster| cluster.server.revive(),
        ],
    )
    .await;
    assert_eq!(found, ["!GroupRefNotFound", "!GroupRefNotReady", "GroupRefValid"]);
}

#[tokio::test(start_paused = true)]
async fn phase_names_obstacle() {
    let mut cluster = Cluster::new();
    hold_groups(&cluster);
    cluster.start().await;
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    let phase = || (cluster.status("a")["phase"].clone(), cluster.status("a")["message"].clone());
    assert_eq!(phase(), (json!("Failed"), json!("MCPGroup tools does not exist")));
    assert!(cluster.find("Deployment", "a-vmcp").is_none());
    cluster.put_group();
    cluster.settle().await;
    assert_eq!(
        phase(),
        (json!("Pending"), json!("MCPGroup tools is not ready: its phase is Pending"))
    );
}

#[tokio::test(start_paused = true)]
async fn backends_decide_phase_of_ready_server() {
    let cluster = Cluster::with_server().await;
    cluster.make_ready("a", 2);
    let cases = [
        (json!([]), "Ready", "DeploymentReady"),
        (json!([{"name": "x", "status": "unknown"}]), "Pending", "!BackendsUnknown"),
        (json!([{"name": "x", "status": "unavailable"}]), "Degraded", "!BackendsUnavailable"),
        (
            json!([{"name": "x", "status": "ready"}, {"name": "y", "status": "degraded"}]),
            "Degraded",
            "!BackendsDegraded",
        ),
        (
            json!([{"name": "x", "status": "ready"}, {"name": "y", "status": "unauthenticated"}]),
            "Ready",
            "DeploymentReady",
        ),
    ];
    for (backends, phase, reason) in cases {
        cluster.report_backends("a", backends.clone()).await;
        cluster.settle().await;
        assert_eq!(cluster.status("a")["phase"], phase, "{backends}");
        assert_eq!(cluster.reason("a", "Ready"), reason, "{backends}");
        // The field of the pods stays theirs.
        let live = cluster.status("a")["discoveredBackends"].clone();
        assert_eq!(live.as_array().map_or(0, Vec::len), backends.as_array().unwrap().len());
    }
}

#[tokio::test(start_paused = true)]
async fn failing_rollout_is_reported() {
    let cluster = Cluster::with_server().await;
    let mut deployment = cluster.get("Deployment", "a-vmcp");
    let condition = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"});
    deployment["status"] = json!({"conditions": [condition]});
    cluster.put_status(&deployment);
    cluster.settle().await;
    assert_eq!(cluster.status("a")["phase"], "Failed");
    assert_eq!(cluster.status("a")["message"], "ProgressDeadlineExceeded: late");
    assert_eq!(cluster.reason("a", "Ready"), "!DeploymentFailed");
    deployment["status"]["readyReplicas"] = 1.into();
    cluster.put_status(&deployment);
    cluster.settle().await;
    assert_eq!(cluster.status("a")["phase"], "Degraded");
}

#[tokio::test(start_paused = true)]
async fn oidc_config_is_followed() {
    let cluster = Cluster::running().await;
    let found = reasons(
        &cluster,
        "OIDCConfigRefValidated",
        &[&|cluster| cluster.put(oidc("a", "api")), &|cluster| {
            cluster.put(provider(json!({"issuer": "https://idp.example", "clientId": "c"})));
        }],
    )
    .await;
    assert_eq!(found, ["!OIDCConfigRefNotFound", "OIDCConfigRefValid"]);
    let hash = cluster.status("a")["oidcConfigHash"].clone();
    assert!(hash.is_string());
    let before = cluster.get("ConfigMap", "a-vmcp-config")["data"].clone();
    cluster.put(provider(json!({"issuer": "https://other.example", "clientId": "c"})));
    cluster.settle().await;
    assert_ne!(cluster.status("a")["oidcConfigHash"], hash);
    assert_ne!(cluster.get("ConfigMap", "a-vmcp-config")["data"], before);
    // Without a reference, condition and hash go.
    cluster.put(server("a", |_| {}));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "OIDCConfigRefValidated"), "-");
    assert_eq!(cluster.status("a").get("oidcConfigHash"), None);
}

#[tokio::test(start_paused = true)]
async fn last_valid_configuration_stays() {
    let cluster = Cluster::running().await;
    cluster.put(provider(json!({"issuer": "https://idp.example", "clientId": "c"})));
    cluster.put(oidc("a", "api"));
    cluster.settle().await;
    cluster.make_ready("a", 1);
    cluster.settle().await;
    let before = cluster.get("ConfigMap", "a-vmcp-config");
    cluster.take_writes();
    cluster.put(server("a", |spec| {
        spec["incomingAuth"] =
            json!({"type": "oidc", "oidcConfigRef": {"name": "absent", "audience": "api"}});
    }));
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), ["patch virtualmcpservers.vmcp.dev/status default/a"]);
    assert_eq!(cluster.get("ConfigMap", "a-vmcp-config"), before);
    let status = cluster.status("a");
    assert_eq!((&status["phase"], &status["observedGeneration"]), (&json!("Failed"), &json!(2)));
    let message = status["message"].as_str().unwrap();
    assert!(message.ends_with("; the pods run generation 1"), "{message}");
    assert_eq!(cluster.reason("a", "Ready"), "DeploymentReady");
    // A condition that did not change keeps the generation that it was determined for.
    let conditions = status["conditions"].as_array().unwrap();
    let observed = |kind: &str| {
        let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
        found["observedGeneration"].clone()
    };
    assert_eq!(observed("OIDCConfigRefValidated"), 2);
    assert_eq!(observed("AuthConfigured"), 1);
}

#[tokio::test(start_paused = true)]
async fn missing_client_secret_is_reported() {
    let cluster = Cluster::running().await;
    cluster.put(provider(json!({
        "issuer": "https://idp.example", "clientId": "c", "introspectionUrl": "https://idp.example/introspect",
        "clientSecretRef": {"name": "client", "key": "secret"},
    })));
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "client"}, "data": {"secret": "eA=="}});
    let found = reasons(
        &cluster,
        "AuthConfigured",
        &[&|cluster| cluster.put(oidc("a", "api")), &|cluster| cluster.put(secret.clone())],
    )
    .await;
    assert_eq!(found, ["!AuthInvalid", "AuthValid"]);
    assert!(cluster.events().iter().any(|line| line.starts_with("Warning SecretValidationFailed")));
}

#[tokio::test(start_paused = true)]
async fn shared_audience_names_other_server() {
    let cluster = Cluster::running().await;
    cluster.put(provider(json!({"issuer": "https://idp.example", "clientId": "c"})));
    cluster.put(oidc("a", "api"));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "AudienceUnique"), "AudienceUnique");
    cluster.put(oidc("b", "api"));
    cluster.settle().await;
    for (name, other) in [("a", "default/b"), ("b", "default/a")] {
        let (status, reason, message) = cluster.condition(name, "AudienceUnique").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", "AudienceShared"));
        assert!(message.contains(other), "{message}");
    }
    cluster.put(oidc("b", "api-b"));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "AudienceUnique"), "AudienceUnique");
    cluster.put(oidc("b", "api"));
    cluster.settle().await;
    cluster.delete("VirtualMCPServer", "b").await;
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "AudienceUnique"), "AudienceUnique");
}

#[tokio::test(start_paused = true)]
async fn shared_service_name_names_other_server() {
    let cluster = Cluster::running().await;
    cluster.put(resource(
        "MCPTelemetryConfig",
        "otel",
        json!({"openTelemetry": {"enabled": true, "insecure": true, "endpoint": "http://otel:4318", "tracing": {"enabled": true}}}),
    ));
    let telemetry = |name: &str, service: Option<&str>| {
        let service = service.map(str::to_owned);
        server(name, move |spec| {
            spec["telemetryConfigRef"] = json!({"name": "otel"});
            if let Some(service) = service {
                spec["telemetryConfigRef"]["serviceName"] = service.into();
            }
        })
    };
    cluster.put(telemetry("thv-a", None));
    cluster.put(telemetry("a", Some("vmcp-a")));
    cluster.settle().await;
    let found = cluster.condition("a", "TelemetryConfigRefValidated").unwrap();
    assert_eq!(found.1, "TelemetryConfigRefValid", "{}", found.2);
    let (_, reason, message) = cluster.condition("a", "ServiceNameUnique").unwrap();
    assert_eq!(reason, "ServiceNameShared");
    assert!(message.contains("default/thv-a"), "{message}");
    cluster.put(telemetry("a", Some("mine")));
    cluster.settle().await;
    assert_eq!(cluster.reason("thv-a", "ServiceNameUnique"), "ServiceNameUnique");
}

#[tokio::test(start_paused = true)]
async fn missing_references_are_reported() {
    let cluster = Cluster::running().await;
    let cases = [
        (
            "TelemetryConfigRefValidated",
            json!({"telemetryConfigRef": {"name": "x"}}),
            "!TelemetryConfigRefNotFound",
        ),
        (
            "EmbeddingServerReady",
            json!({"embeddingServerRef": {"name": "x"}}),
            "!EmbeddingServerNotFound",
        ),
        (
            "CompositeToolRefsValidated",
            json!({"config": {"compositeToolRefs": [{"name": "x"}]}}),
            "!CompositeToolRefNotFound",
        ),
    ];
    for (kind, change, expected) in cases {
        let change = change.as_object().unwrap().clone();
        cluster.put(server("a", move |spec| spec.as_object_mut().unwrap().extend(change)));
        cluster.settle().await;
        assert_eq!(cluster.reason("a", kind), expected, "{:#}", cluster.status("a"));
        assert_eq!(cluster.status("a")["phase"], "Failed", "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_pod_template_makes_no_deployment() {
    let cluster = Cluster::running().await;
    cluster
        .put(server("a", |spec| spec["podTemplateSpec"] = json!({"spec": {"containers": "none"}})));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "PodTemplateSpecValid"), "!InvalidPodTemplateSpec");
    assert_eq!(cluster.status("a")["phase"], "Failed");
    assert!(cluster.find("Deployment", "a-vmcp").is_none());
    assert!(cluster.events().iter().any(|line| line.starts_with("Warning InvalidPodTemplateSpec")));
    cluster.put(server("a", |spec| {
        spec["podTemplateSpec"] = json!({"spec": {"nodeSelector": {"a": "b"}}});
    }));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "PodTemplateSpecValid"), "PodTemplateSpecValid");
}

#[tokio::test(start_paused = true)]
async fn member_of_group_reaches_configuration() {
    let cluster = Cluster::running().await;
    cluster.put(server("a", |spec| spec["outgoingAuth"] = json!({"source": "inline"})));
    cluster.settle().await;
    let text = || {
        cluster.get("ConfigMap", "a-vmcp-config")["data"]["config.yaml"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let entry = |group: &str| {
        resource(
            "MCPServerEntry",
            "weather",
            json!({"remoteUrl": "https://weather.example/mcp", "transport": "streamable-http", "groupRef": {"name": group}}),
        )
    };
    assert!(!text().contains("weather.example"));
    cluster.put(entry("tools"));
    cluster.settle().await;
    assert!(text().contains("weather.example"));
    // A member that changes its group leaves the old one.
    cluster.put(entry("others"));
    cluster.settle().await;
    assert!(!text().contains("weather.example"));
}

#[tokio::test(start_paused = true)]
async fn policies_of_config_map_are_followed() {
    let cluster = Cluster::running().await;
    cluster.put(provider(json!({"issuer": "https://idp.example", "clientId": "c"})));
    cluster.put(server("a", |spec| {
        spec["incomingAuth"] = json!({
            "type": "oidc", "oidcConfigRef": {"name": "idp", "audience": "api"},
            "authzConfig": {"type": "configMap", "configMap": {"name": "policies"}},
        });
    }));
    cluster.settle().await;
    assert_eq!(cluster.status("a")["phase"], "Failed", "{:#}", cluster.status("a"));
    let map = |policy: &str| {
        let document = json!({"version": "1", "type": "cedarv1", "cedar": {"policies": [policy], "entities_json": "[]"}});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "policies"}, "data": {"authz.json": document.to_string()}})
    };
    cluster.put(map("permit(principal, action, resource);"));
    cluster.settle().await;
    let text = || {
        cluster.get("ConfigMap", "a-vmcp-config")["data"]["config.yaml"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(text().contains("permit(principal, action, resource);"));
    cluster.put(map("forbid(principal, action, resource);"));
    cluster.settle().await;
    assert!(text().contains("forbid(principal, action, resource);"));
}
