//! The operator with its role alone: it has all permissions that the operator needs, and no other ones.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use vmcp_kube_fixture::Permission;
use vmcp_operator::ServiceName;

use super::operator_roles::{NAMESPACE, Scope, USER, manifest};
use super::optional_objects::{ask_for_all, define_kinds};
use super::support::{Cluster, resource_of, server};
use super::webhook::no_connections;

fn service() -> ServiceName {
    ServiceName { namespace: NAMESPACE.to_owned(), name: "vmcp-operator-webhook".to_owned() }
}

/// Starts an operator that has the roles of the manifest.
async fn with_role(in_namespace: bool) -> Cluster {
    let scope = if in_namespace { Scope::Namespace } else { Scope::Cluster };
    let mut cluster = Cluster::with_roles(scope, NAMESPACE);
    cluster.start_operator(|operator| {
        let name = "vmcp-operator-leader".to_owned();
        let lease = vmcp_operator::LeaseName { namespace: NAMESPACE.to_owned(), name };
        let operator = operator.leader_election(lease).webhook(service(), no_connections());
        if in_namespace { operator.namespaces(vec!["default".to_owned()]) } else { operator }
    });
    cluster.settle().await;
    cluster
}

/// Kinds of shared configuration, with a spec of each.
const SHARED: [(&str, &str); 4] = [
    ("MCPExternalAuthConfig", r#"{"type": "unauthenticated"}"#),
    ("MCPOIDCConfig", r#"{"type": "kubernetesServiceAccount", "kubernetesServiceAccount": {}}"#),
    ("MCPTelemetryConfig", r#"{"prometheus": {"enabled": true}}"#),
    ("MCPToolConfig", r#"{"toolsFilter": ["read"]}"#),
];

/// Stores what the operator gives a verdict of.
fn put_shared(cluster: &Cluster) {
    for (kind, spec) in SHARED {
        cluster.put(resource_of(kind, "shared", serde_json::from_str(spec).unwrap()));
    }
    let steps = json!([{"id": "a", "tool": "b.c"}]);
    let tool = json!({"name": "report", "steps": steps});
    cluster.put(resource_of("VirtualMCPCompositeToolDefinition", "report", tool));
    let auth_server = json!({"name": "absent"});
    let server = json!({"image": "i", "authServerRef": auth_server});
    cluster.put(resource_of("MCPServer", "one", server));
    let proxy = json!({"remoteUrl": "https://p.example", "authServerRef": auth_server});
    cluster.put(resource_of("MCPRemoteProxy", "two", proxy));
}

/// Has the operator do all that it can do.
async fn use_all(cluster: &mut Cluster, in_namespace: bool) {
    cluster.put_group();
    define_kinds(cluster);
    cluster.put(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "data": {"token": "YQ=="},
    }));
    cluster.put(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"ca.crt": "x"},
    }));
    cluster.put(json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPServerEntry", "metadata": {"name": "entry"},
        "spec": {
            "remoteUrl": "https://one.example/mcp", "transport": "streamable-http", "groupRef": {"name": "tools"},
            "caBundleRef": {"configMapRef": {"name": "ca", "key": "ca.crt"}},
            "headerForward": {"addHeadersFromSecret": [{"headerName": "x-a", "valueSecretRef": {"name": "token", "key": "token"}}]},
        },
    }));
    // Discovers its backends.
    cluster.put(server("a", |_| {}));
    cluster.put(server("b", |spec| {
        spec["outgoingAuth"] = json!({"source": "inline"});
        spec["replicas"] = 1.into();
        ask_for_all(spec);
    }));
    cluster.put(json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": "EmbeddingServer", "metadata": {"name": "embed"}, "spec": {},
    }));
    put_shared(cluster);
    // The operator looks for kinds that were not there when it started after some minutes.
    cluster.pass(Duration::from_mins(10)).await;
    // An autoscaler takes the replicas over, and the account is another one.
    cluster.put(server("b", |spec| {
        spec["outgoingAuth"] = json!({"source": "inline"});
        spec["serviceAccount"] = "mine".into();
    }));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "ObjectsApplied"), "ObjectsApplied");
    assert_eq!(cluster.reason("b", "ObjectsApplied"), "ObjectsApplied");
    assert!(cluster.find("ServiceAccount", "b-vmcp").is_none());
    cluster.delete("VirtualMCPServer", "a").await;
    for (kind, _) in SHARED {
        cluster.delete(kind, "shared").await;
    }
    cluster.settle().await;
    for (kind, _) in SHARED {
        assert!(cluster.find(kind, "shared").is_none(), "{kind}");
    }
    // The certificate is rotated, and then the webhook goes.
    cluster.skip_days(61);
    cluster.settle().await;
    cluster.stop().await;
    cluster.start_operator(|operator| {
        let operator = operator.without_webhook(service());
        if in_namespace { operator.namespaces(vec!["default".to_owned()]) } else { operator }
    });
    cluster.settle().await;
    cluster.stop().await;
}

fn lines(permissions: &BTreeSet<Permission>) -> Vec<String> {
    let line = |one: &Permission| format!("{} {}.{}", one.verb, one.resource, one.group);
    permissions.iter().map(line).collect()
}

/// Checks that all permissions were needed. That none is missing is checked at the end of every cluster.
async fn check(in_namespace: bool) {
    let mut cluster = with_role(in_namespace).await;
    use_all(&mut cluster, in_namespace).await;
    let needed = cluster.server.used_permissions(USER);
    let all = cluster.server.permissions(USER);
    let unused: BTreeSet<_> = all.difference(&needed).cloned().collect();
    assert_eq!(lines(&unused), [""; 0], "the role has no other permission");
}

#[tokio::test(start_paused = true)]
async fn role_for_cluster_is_least() {
    check(false).await;
}

#[tokio::test(start_paused = true)]
async fn role_for_namespace_is_least() {
    check(true).await;
}

#[test]
fn role_has_no_wildcard() {
    for role in manifest() {
        for rule in role["rules"].as_array().unwrap() {
            for field in ["apiGroups", "resources", "verbs"] {
                let texts = rule[field].as_array().unwrap();
                assert!(texts.iter().all(|text| text != "*"), "{rule}");
            }
        }
    }
}
