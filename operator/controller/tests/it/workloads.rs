//! MCPServers and MCPRemoteProxies: conditions about what such workloads support, beside the status of another product.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::{Cluster, resource_of};

const KINDS: [(&str, &str); 2] =
    [("MCPServer", "mcpservers"), ("MCPRemoteProxy", "mcpremoteproxies")];

fn workload(kind: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut spec = match kind {
        "MCPServer" => json!({"image": "example.com/server"}),
        _ => json!({"remoteUrl": "https://remote.example/mcp"}),
    };
    change(&mut spec);
    resource_of(kind, "w", spec)
}

fn issuer(name: &str, upstreams: &[&str]) -> Value {
    let upstream = |name: &&str| {
        let oidc = json!({"issuerUrl": "https://id.example.com", "clientId": "tools"});
        json!({"name": name, "type": "oidc", "oidcConfig": oidc})
    };
    let upstreams: Vec<_> = upstreams.iter().map(upstream).collect();
    let server = json!({"issuer": "https://mcp.example.com", "upstreamProviders": upstreams});
    let spec = json!({"type": "embeddedAuthServer", "embeddedAuthServer": server});
    resource_of("MCPExternalAuthConfig", name, spec)
}

fn put_issuers(cluster: &Cluster) {
    cluster.put(issuer("one", &["okta"]));
    cluster.put(issuer("two", &["okta", "google"]));
    let mut invalid = issuer("invalid", &["okta"]);
    invalid["spec"]["embeddedAuthServer"]["issuer"] = "http://mcp.example.com".into();
    cluster.put(invalid);
    cluster.put(resource_of("MCPExternalAuthConfig", "none", json!({"type": "unauthenticated"})));
}

/// Fields of a spec, with the reason of `AuthServerRefValidated` and a part of its message.
const CASES: [(&str, &str, &str); 13] = [
    ("{authServerRef: {name: one}}", "AuthServerRefValid", "MCPExternalAuthConfig one"),
    (
        "{authServerRef: {name: absent}}",
        "!AuthServerRefNotFound",
        "spec.authServerRef: MCPExternalAuthConfig absent does not exist",
    ),
    (
        "{authServerRef: {name: none}}",
        "!AuthServerRefInvalidType",
        "found type: unauthenticated; allowed: embeddedAuthServer",
    ),
    (
        "{authServerRef: {name: invalid}}",
        "!AuthServerRefInvalidConfig",
        "spec.embeddedAuthServer.issuer: found",
    ),
    (
        "{authServerRef: {name: two}}",
        "!MultiUpstreamNotSupported",
        "found 2 upstream providers; allowed: one",
    ),
    (
        "{authServerRef: {kind: Secret, name: one}}",
        "!AuthServerRefInvalidKind",
        "spec.authServerRef.kind: found Secret; allowed: MCPExternalAuthConfig",
    ),
    (
        "{authServerRef: {name: one}, externalAuthConfigRef: {name: two}}",
        "!AuthServerRefInvalidConfig",
        "allowed: one of them",
    ),
    (
        "{externalAuthConfigRef: {name: two}}",
        "!MultiUpstreamNotSupported",
        "spec.externalAuthConfigRef: MCPExternalAuthConfig two",
    ),
    ("{externalAuthConfigRef: {name: one}}", "AuthServerRefValid", "one"),
    ("{externalAuthConfigRef: {name: none}}", "-", ""),
    (
        "{authServerRef: {name: one}, oidcConfigRef: {name: idp, audience: 'https://b.example/mcp', resourceUrl: 'https://a.example/mcp'}}",
        "!AuthServerRefInvalidConfig",
        "spec.oidcConfigRef.audience https://b.example/mcp",
    ),
    (
        "{authServerRef: {name: one}, oidcConfigRef: {name: idp, audience: 'https://a.example/mcp', resourceUrl: 'https://a.example/mcp'}}",
        "AuthServerRefValid",
        "one",
    ),
    ("{}", "-", ""),
];

#[tokio::test(start_paused = true)]
async fn each_reason_names_what_to_change() {
    for (kind, _) in KINDS {
        let cluster = Cluster::running().await;
        put_issuers(&cluster);
        for (fields, reason, part) in CASES {
            let fields: serde_json::Map<String, Value> = serde_saphyr::from_str(fields).unwrap();
            cluster.put(workload(kind, |spec| {
                spec.as_object_mut().unwrap().extend(fields.clone());
            }));
            cluster.settle().await;
            assert_eq!(
                cluster.reason_of(kind, "w", "AuthServerRefValidated"),
                reason,
                "{fields:?}"
            );
            let condition = cluster.condition_of(kind, "w", "AuthServerRefValidated");
            let message = condition.map(|(_, _, message)| message).unwrap_or_default();
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn provider_for_policies_is_ignored() {
    for (kind, _) in KINDS {
        let mut cluster = Cluster::running().await;
        let policies = |provider: Value| {
            workload(kind, |spec| {
                let inline = json!({
                    "policies": ["permit(principal, action, resource);"],
                    "primaryUpstreamProvider": provider,
                });
                spec["authzConfig"] = json!({"type": "inline", "inline": inline});
            })
        };
        let reason =
            |cluster: &Cluster| cluster.reason_of(kind, "w", "AuthzPrimaryUpstreamProviderIgnored");
        cluster.put(policies("okta".into()));
        cluster.settle().await;
        assert_eq!(reason(&cluster), "PrimaryUpstreamProviderIgnored");
        cluster.pass(Duration::from_hours(1)).await;
        cluster.stop().await;
        cluster.start().await;
        let warnings = cluster.events();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("Warning PrimaryUpstreamProviderIgnored"), "{warnings:?}");
        cluster.put(policies(Value::Null));
        cluster.settle().await;
        assert_eq!(reason(&cluster), "-");
    }
}

#[tokio::test(start_paused = true)]
async fn workload_without_findings_has_no_write() {
    for (kind, _) in KINDS {
        let cluster = Cluster::running().await;
        cluster.put(workload(kind, |_| {}));
        cluster.pass(Duration::from_hours(1)).await;
        assert_eq!(cluster.take_writes(), [""; 0], "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn status_of_other_product_stays() {
    for (kind, plural) in KINDS {
        let mut cluster = Cluster::running().await;
        put_issuers(&cluster);
        let mut object = workload(kind, |spec| {
            spec["groupRef"] = json!({"name": "tools"});
            spec["authServerRef"] = json!({"name": "two"});
        });
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "Running", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let status = json!({
            "phase": "Ready", "url": "http://w.default.svc:8080/mcp", "observedGeneration": 1,
            "conditions": [ready],
        });
        object["status"] = status.clone();
        cluster.put(object);
        cluster.settle().await;
        let writes = cluster.take_writes();
        let own: Vec<_> = writes.iter().filter(|line| line.contains(plural)).collect();
        assert_eq!(own, [&format!("patch {plural}.vmcp.dev/status default/w")]);
        let found = cluster.get(kind, "w")["status"].clone();
        for field in ["phase", "url", "observedGeneration"] {
            assert_eq!(found[field], status[field], "{field}");
        }
        assert_eq!(cluster.reason_of(kind, "w", "Ready"), "Running");
        let reason = cluster.reason_of(kind, "w", "AuthServerRefValidated");
        assert_eq!(reason, "!MultiUpstreamNotSupported");
        // The finding goes with its reference, and nothing else does.
        let mut object = workload(kind, |spec| spec["groupRef"] = json!({"name": "tools"}));
        object["metadata"]["generation"] = 2.into();
        cluster.put(object);
        cluster.settle().await;
        assert_eq!(cluster.reason_of(kind, "w", "AuthServerRefValidated"), "-");
        assert_eq!(cluster.reason_of(kind, "w", "Ready"), "Running");
        assert_eq!(cluster.get(kind, "w")["status"]["url"], status["url"]);
        cluster.take_writes();
        cluster.stop().await;
        cluster.start().await;
        cluster.pass(Duration::from_hours(1)).await;
        assert_eq!(cluster.take_writes(), [""; 0], "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn changed_issuer_concerns_its_workloads() {
    let cluster = Cluster::running().await;
    put_issuers(&cluster);
    cluster.put(workload("MCPServer", |spec| spec["authServerRef"] = json!({"name": "one"})));
    cluster.settle().await;
    cluster.take_writes();
    cluster.put(issuer("one", &["okta", "google"]));
    cluster.settle().await;
    let reason = || cluster.reason_of("MCPServer", "w", "AuthServerRefValidated");
    assert_eq!(reason(), "!MultiUpstreamNotSupported");
    assert_eq!(
        cluster.take_writes().iter().filter(|line| line.contains("mcpservers")).count(),
        1,
        "the workload is reconciled once"
    );
    cluster.put(issuer("one", &["okta"]));
    cluster.settle().await;
    assert_eq!(reason(), "AuthServerRefValid");
    let events = cluster.events();
    assert!(events.iter().any(|line| line.starts_with("Normal AuthServerRefValid")), "{events:?}");
}
