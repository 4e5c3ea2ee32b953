//! Cluster of a pod: an API server with the roles that the operator plans, over TCP.

use std::path::PathBuf;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use vmcp_kube_fixture::ApiServer;
use vmcp_operator::manifests::RenderedServer;

use super::pod::{Pod, render, scratch};

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
    /// Creates a cluster with the objects of some manifests.
    pub(super) async fn new(name: &str, manifests: &str) -> Self {
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
        let cluster = Self { server, kubeconfig, name, manifests };
        for object in cluster.rendered().plan.into_objects() {
            let kind = object["kind"].as_str().unwrap();
            if ["Lease", "Role", "RoleBinding", "ServiceAccount"].contains(&kind) {
                cluster.put(&object);
            }
        }
        cluster
    }

    fn rendered(&self) -> RenderedServer {
        render(&self.manifests)
    }

    /// Starts a pod.
    pub(super) fn pod(&self) -> Pod {
        let variables = [("KUBECONFIG", self.kubeconfig.to_str().unwrap())];
        Pod::start_with(&self.name, self.rendered(), &variables)
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
