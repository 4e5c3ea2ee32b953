//! Roles of the operator, with which every test runs it.

use std::sync::LazyLock;

use serde_json::{Value, json};
use vmcp_kube_fixture::ApiServer;

/// Namespace that the operator does not watch.
pub(crate) const NAMESPACE: &str = "kube-system";

/// User that the operator is.
pub(crate) const USER: &str = "system:serviceaccount:kube-system:vmcp-operator";

/// Place in which the operator has its permissions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scope {
    Cluster,
    /// In the namespace `default` alone.
    Namespace,
}

/// Returns the roles of the manifest.
pub(crate) fn manifest() -> &'static [Value] {
    static MANIFEST: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/role.yaml");
        serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
    });
    &MANIFEST
}

/// Stores the roles of the manifest, and binds them to the operator of a namespace.
pub(crate) fn bind(server: &ApiServer, scope: Scope, operator_namespace: &str) {
    for role in manifest() {
        let mut role = role.clone();
        let kind = role["kind"].clone();
        let name = role["metadata"]["name"].clone();
        let mut binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": operator_namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "vmcp-operator", "namespace": NAMESPACE}],
        });
        for rule in role["rules"].as_array_mut().unwrap() {
            for one in rule["resourceNames"].as_array_mut().into_iter().flatten() {
                *one = one.as_str().unwrap().replace("vmcp-system", operator_namespace).into();
            }
        }
        if kind != "ClusterRole" {
            role["metadata"]["namespace"] = operator_namespace.into();
        } else if scope == Scope::Namespace && name == "vmcp-operator" {
            binding["metadata"]["namespace"] = "default".into();
        } else {
            binding["kind"] = "ClusterRoleBinding".into();
            binding["metadata"].as_object_mut().unwrap().remove("namespace");
        }
        server.put(&role).unwrap();
        server.put(&binding).unwrap();
    }
}
