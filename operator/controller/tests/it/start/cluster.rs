//! Cluster of a pod: an API server with the roles that the operator plans, over TCP.

use std::path::PathBuf;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use vmcp_api::names::status_lease_name;
use vmcp_kube_fixture::{ApiServer, RequestRecord};
use vmcp_operator::manifests::RenderedServer;

use super::pod::{Planned, Pod, render, scratch};

/// User that the pods are, with the roles that the operator plans for them.
pub(super) const USER: &str = "system:serviceaccount:team:a-vmcp";

/// API server with a server `a` in the namespace `team`, and with the objects that the operator plans for it.
pub(super) struct Kubernetes {
    pub(super) server: ApiServer,
    kubeconfig: PathBuf,
    name: String,
    manifests: String,
}

impl Kubernetes {
    /// Creates a cluster with the objects of some manifests, and with those that the pods need of the plan.
    pub(super) async fn new(name: &str, manifests: &str) -> Self {
        let cluster = Self::bare(name, manifests).await;
        for object in cluster.rendered().plan.into_objects() {
            let kind = object["kind"].as_str().unwrap();
            if ["Lease", "Role", "RoleBinding", "ServiceAccount"].contains(&kind) {
                cluster.put(&object);
            }
        }
        cluster
    }

    /// Creates a cluster with the objects of some manifests alone.
    pub(super) async fn bare(name: &str, manifests: &str) -> Self {
        let server = ApiServer::new();
        for definition in vmcp_api::definitions() {
            server.put(&serde_json::to_value(definition).unwrap()).unwrap();
        }
        let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n";
        server.put_yaml(namespace).unwrap();
        server.put_yaml(manifests).unwrap();
        let folder = scratch(name);
        std::fs::create_dir_all(&folder).unwrap();
        let kubeconfig = folder.join("cluster");
        // The pod has no permissions but those of its role.
        let address = server.as_user(USER).serve().await.unwrap();
        std::fs::write(&kubeconfig, vmcp_kube_fixture::kubeconfig(address)).unwrap();
        let (name, manifests) = (name.to_owned(), manifests.to_owned());
        Self { server, kubeconfig, name, manifests }
    }

    fn rendered(&self) -> RenderedServer {
        render(&self.manifests)
    }

    /// Starts a pod.
    pub(super) fn pod(&self) -> Pod {
        self.start(self.rendered().into())
    }

    /// Starts a pod as it is planned.
    pub(super) fn start(&self, planned: Planned) -> Pod {
        let variables = [("KUBECONFIG", self.kubeconfig.to_str().unwrap())];
        Pod::start_with(&self.name, planned, &variables)
    }

    /// Starts one of several pods.
    pub(super) fn replica(&self, index: usize) -> Pod {
        let name = replica(index);
        let variables =
            [("KUBECONFIG", self.kubeconfig.to_str().unwrap()), ("POD_NAME", name.as_str())];
        Pod::start_with(&format!("{}-{index}", self.name), self.rendered().into(), &variables)
    }

    /// Returns the status of the server.
    pub(super) fn status(&self) -> Value {
        let server = self.server.get("vmcp.dev", "virtualmcpservers", "team", "a").unwrap();
        server["status"].clone()
    }

    /// Returns what the status says about a backend; null if it does not.
    pub(super) fn backend(&self, name: &str) -> Value {
        let status = self.status();
        let mut backends = status["discoveredBackends"].as_array().into_iter().flatten();
        backends.find(|one| one["name"] == name).cloned().unwrap_or_default()
    }

    /// Returns a condition of the server; null without it.
    pub(super) fn condition(&self, type_: &str) -> Value {
        let status = self.status();
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.find(|one| one["type"] == type_).cloned().unwrap_or_default()
    }

    /// Returns the name of the pod that reports, or an empty text.
    pub(super) fn holder(&self) -> String {
        let name = status_lease_name("a");
        let lease = self.server.get("coordination.k8s.io", "leases", "team", &name).unwrap();
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the number of writes of the status.
    pub(super) fn status_writes(&self) -> usize {
        let requests = self.server.requests();
        let is_report = |one: &&RequestRecord| one.subresource == "status" && one.verb == "patch";
        requests.iter().filter(is_report).count()
    }

    /// Checks that the pods needed each permission of their role, and no other one.
    pub(super) fn check_least_role(&self) {
        self.check_allowed();
        let (used, all) = (self.server.used_permissions(USER), self.server.permissions(USER));
        let unused: Vec<_> = all.difference(&used).collect();
        assert!(!used.is_empty() && unused.is_empty(), "{unused:?}");
    }

    pub(super) fn put(&self, object: &Value) {
        self.server.put(object).unwrap();
    }

    /// Stores a resource of vmcp.
    pub(super) fn apply(&self, kind: &str, name: &str, spec: &Value) {
        self.put(&object(kind, name, spec));
    }

    /// Stores a member of the group, with the status that its controller would write.
    pub(super) fn member(&self, kind: &str, name: &str, url: &str) {
        self.member_with(kind, name, url, &json!({}));
    }

    /// Stores a member with more fields in its spec.
    pub(super) fn member_with(&self, kind: &str, name: &str, url: &str, more: &Value) {
        let (mut spec, status) = match kind {
            "MCPServer" => (
                json!({"image": "i", "transport": "streamable-http"}),
                json!({"url": url, "phase": "Ready"}),
            ),
            "MCPRemoteProxy" => (
                json!({"remoteUrl": "https://remote.example.com/mcp"}),
                json!({"url": url, "phase": "Ready"}),
            ),
            _ => (
                json!({"remoteUrl": url, "transport": "streamable-http"}),
                json!({"phase": "Valid"}),
            ),
        };
        spec["groupRef"] = json!({"name": "tools"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut member = object(kind, name, &spec);
        self.put(&member);
        member["status"] = status;
        self.server.put_status(&member).unwrap();
    }

    /// Writes the status of a member.
    pub(super) fn set_status(&self, kind: &str, name: &str, status: Value) {
        let plural = plural(kind);
        let mut object = self.server.get("vmcp.dev", plural, "team", name).unwrap();
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        object["status"] = status;
        self.server.put_status(&object).unwrap();
    }

    pub(super) async fn delete(&self, kind: &str, name: &str) {
        let gvk = GroupVersionKind::gvk("vmcp.dev", "v1beta1", kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural(kind));
        let client = Client::new(self.server.clone(), "team");
        let api: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
        api.delete(name, &DeleteParams::background()).await.unwrap();
    }

    /// Checks that the pod had all permissions that it used.
    pub(super) fn check_allowed(&self) {
        let requests = self.server.requests();
        let forbidden: Vec<_> = requests.iter().filter(|it| it.status == 403).collect();
        assert!(forbidden.is_empty(), "{forbidden:?}");
    }
}

/// Returns the name of one of several pods.
pub(super) fn replica(index: usize) -> String {
    format!("a-vmcp-{index}")
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": kind,
        "metadata": {"name": name, "namespace": "team"}, "spec": spec,
    })
}

fn plural(kind: &str) -> &'static str {
    match kind {
        "MCPServer" => "mcpservers",
        "MCPRemoteProxy" => "mcpremoteproxies",
        "MCPServerEntry" => "mcpserverentries",
        "MCPToolConfig" => "mcptoolconfigs",
        "MCPExternalAuthConfig" => "mcpexternalauthconfigs",
        "VirtualMCPServer" => "virtualmcpservers",
        other => panic!("{other}"),
    }
}
