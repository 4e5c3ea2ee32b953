//! Scenarios over TCP, with the permissions of an administrator: against the API server of the tests, and against the cluster of
//! the kubeconfig that `VMCP_TEST_KUBECONFIG` names. There, they apply the definitions in `operator/crds`, which stay, and use a
//! namespace of their own, which goes.

use std::io::Write;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::Path;

use futures_util::FutureExt;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use vmcp_operator::{Environment, Operator, Settings};

use super::program::eventually;
use super::support::{Cluster, resource, resource_of, server};

/// Time in which an operator that has nothing to do writes nothing.
const REST: std::time::Duration = std::time::Duration::from_secs(3);

/// Namespace of the scenarios in a cluster.
struct TestNamespace {
    client: Client,
    name: String,
}

impl TestNamespace {
    async fn create(client: Client, name: &str) -> Self {
        let namespace = Self { client, name: name.to_owned() };
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let namespaces: Api<DynamicObject> =
            Api::all_with(namespace.client.clone(), &api_resource("Namespace"));
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        namespace
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.name, &api_resource(kind))
    }

    /// Applies an object as `kubectl apply --server-side` does.
    async fn apply(&self, object: &Value) -> kube::Result<DynamicObject> {
        let kind = object["kind"].as_str().unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        let parameters = PatchParams::apply("kubectl").force();
        self.api(kind).patch(name, &parameters, &Patch::Apply(object)).await
    }

    async fn find(&self, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    async fn get(&self, kind: &str, name: &str) -> Value {
        self.find(kind, name).await.unwrap_or_else(|| panic!("{kind} {name}"))
    }

    /// Changes an object as a person does.
    async fn edit(&self, kind: &str, name: &str, change: Value) {
        let parameters = PatchParams::default();
        self.api(kind).patch(name, &parameters, &Patch::Merge(change)).await.unwrap();
    }

    async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::background()).await.unwrap();
    }

    /// Returns the reason of a condition.
    async fn reason(&self, kind: &str, name: &str, type_: &str) -> Option<String> {
        let object = self.get(kind, name).await;
        let conditions = object["status"]["conditions"].as_array()?;
        let found = conditions.iter().find(|condition| condition["type"] == type_)?;
        found["reason"].as_str().map(str::to_owned)
    }

    /// Returns the versions of the objects that the operator writes.
    async fn versions(&self) -> Vec<Value> {
        let mut versions = Vec::new();
        for (kind, name) in OWNED {
            versions.push(self.get(kind, name).await["metadata"]["resourceVersion"].clone());
        }
        versions
    }
}

/// Objects of the server `a`, but the Deployment, whose status others write.
const OWNED: [(&str, &str); 6] = [
    ("ConfigMap", "a-vmcp-config"),
    ("Secret", "a-vmcp-seal"),
    ("ServiceAccount", "a-vmcp"),
    ("Role", "a-vmcp"),
    ("RoleBinding", "a-vmcp"),
    ("Service", "vmcp-a"),
];

fn api_resource(kind: &str) -> ApiResource {
    let (group, plural) = resource(kind);
    let version = if group == "vmcp.dev" { "v1beta1" } else { "v1" };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// Returns a server without credentials, with a change of its spec.
fn gateway(change: impl FnOnce(&mut Value)) -> Value {
    server("a", |spec| {
        spec["outgoingAuth"] = json!({"source": "inline"});
        change(spec);
    })
}

/// Runs the operator in a namespace, and all scenarios one after the other.
async fn run_scenarios(client: Client, name: &str) {
    let namespace = TestNamespace::create(client.clone(), name).await;
    let operator =
        Operator::new(Settings::new("example.com/vmcp:1"), Environment::system().unwrap())
            .namespaces(vec![name.to_owned()]);
    let (stop, stopped) = oneshot::channel::<()>();
    let operator = tokio::spawn(operator.run(client, async { drop(stopped.await) }));
    server_gets_objects(&namespace).await;
    edits_are_put_back_or_kept(&namespace).await;
    mistakes_are_refused(&namespace).await;
    referenced_config_stays(&namespace).await;
    deleted_server_leaves_nothing(&namespace).await;
    stop.send(()).unwrap();
    operator.await.unwrap().unwrap();
}

async fn server_gets_objects(namespace: &TestNamespace) {
    namespace.apply(&resource_of("MCPGroup", "tools", json!({}))).await.unwrap();
    let entry = json!({
        "remoteUrl": "https://one.example/mcp", "transport": "streamable-http", "groupRef": {"name": "tools"},
    });
    namespace.apply(&resource_of("MCPServerEntry", "one", entry)).await.unwrap();
    namespace.apply(&gateway(|_| {})).await.unwrap();
    let applied = Some("ObjectsApplied");
    let reason = async || namespace.reason("VirtualMCPServer", "a", "ObjectsApplied").await;
    eventually(async || reason().await.as_deref() == applied).await;
    assert!(namespace.find("Deployment", "a-vmcp").await.is_some());
    let config = namespace.get("ConfigMap", "a-vmcp-config").await;
    assert!(config["data"].to_string().contains("https://one.example/mcp"), "{config}");
    tokio::time::sleep(REST).await;
    let versions = namespace.versions().await;
    tokio::time::sleep(REST).await;
    assert_eq!(namespace.versions().await, versions, "nothing is written at rest");
}

async fn edits_are_put_back_or_kept(namespace: &TestNamespace) {
    let config = namespace.get("ConfigMap", "a-vmcp-config").await["data"].clone();
    let file = config.as_object().unwrap().keys().next().unwrap().clone();
    namespace.edit("ConfigMap", "a-vmcp-config", json!({"data": {file: "x: 1"}})).await;
    let is_back = async || namespace.get("ConfigMap", "a-vmcp-config").await["data"] == config;
    eventually(is_back).await;
    let label = json!({"metadata": {"labels": {"team.example/owner": "x"}}});
    namespace.edit("Deployment", "a-vmcp", label).await;
    namespace.apply(&gateway(|spec| spec["replicas"] = 2.into())).await.unwrap();
    let replicas = async || namespace.get("Deployment", "a-vmcp").await["spec"]["replicas"].clone();
    eventually(async || replicas().await == 2).await;
    let deployment = namespace.get("Deployment", "a-vmcp").await;
    assert_eq!(deployment["metadata"]["labels"]["team.example/owner"], "x");
}

async fn mistakes_are_refused(namespace: &TestNamespace) {
    let negative = gateway(|spec| spec["replicas"] = (-1).into());
    let error = namespace.apply(&negative).await.unwrap_err().to_string();
    assert!(error.contains("spec.replicas"), "{error}");
    let entry = json!({"remoteUrl": "ftp://one.example", "transport": "streamable-http", "groupRef": {"name": "tools"}});
    let error = namespace.apply(&resource_of("MCPServerEntry", "two", entry)).await.unwrap_err();
    assert!(error.to_string().contains("spec.remoteUrl"), "{error}");
}

async fn referenced_config_stays(namespace: &TestNamespace) {
    let config = json!({"toolsFilter": ["read"]});
    namespace.apply(&resource_of("MCPToolConfig", "selection", config)).await.unwrap();
    let tools = json!({"aggregation": {"tools": [
        {"workload": "one", "toolConfigRef": {"name": "selection"}},
    ]}});
    namespace.apply(&gateway(|spec| spec["config"] = tools)).await.unwrap();
    let config = async || namespace.get("MCPToolConfig", "selection").await;
    let is_held = async || config().await["metadata"]["finalizers"].is_array();
    eventually(is_held).await;
    namespace.delete("MCPToolConfig", "selection").await;
    let reason = async || namespace.reason("MCPToolConfig", "selection", "DeletionBlocked").await;
    eventually(async || reason().await.is_some()).await;
    namespace.apply(&gateway(|_| {})).await.unwrap();
    eventually(async || namespace.find("MCPToolConfig", "selection").await.is_none()).await;
}

async fn deleted_server_leaves_nothing(namespace: &TestNamespace) {
    namespace.delete("VirtualMCPServer", "a").await;
    for (kind, name) in OWNED.into_iter().chain([("Deployment", "a-vmcp")]) {
        eventually(async || namespace.find(kind, name).await.is_none()).await;
    }
}

async fn client_of(kubeconfig: Kubeconfig) -> Client {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn scenarios_pass_over_tcp() {
    let cluster = Cluster::new();
    let address = cluster.server.serve().await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&vmcp_kube_fixture::kubeconfig(address)).unwrap();
    run_scenarios(client_of(kubeconfig).await, "scenarios").await;
}

#[tokio::test]
async fn scenarios_pass_in_real_cluster() {
    let Some(path) = std::env::var_os("VMCP_TEST_KUBECONFIG") else {
        // Not by a macro, whose output tests that pass do not show.
        let text = "scenarios in a real cluster: VMCP_TEST_KUBECONFIG is not set, skipped";
        writeln!(std::io::stderr(), "{text}").unwrap();
        return;
    };
    let client = client_of(Kubeconfig::read_from(Path::new(&path)).unwrap()).await;
    let definitions: Api<DynamicObject> =
        Api::all_with(client.clone(), &api_resource("CustomResourceDefinition"));
    for definition in vmcp_api::definitions() {
        let name = definition.metadata.name.clone().unwrap();
        let parameters = PatchParams::apply("vmcp-test").force();
        definitions.patch(&name, &parameters, &Patch::Apply(&definition)).await.unwrap();
        let is_served = async || {
            let found = definitions.get(&name).await.unwrap();
            found.data["status"].to_string().contains("InitialNamesAccepted")
        };
        eventually(is_served).await;
    }
    let name = format!("vmcp-test-{}", std::process::id());
    // The namespace goes even if a scenario fails.
    let outcome = AssertUnwindSafe(run_scenarios(client.clone(), &name)).catch_unwind().await;
    let namespaces: Api<DynamicObject> = Api::all_with(client, &api_resource("Namespace"));
    namespaces.delete(&name, &DeleteParams::background()).await.unwrap();
    outcome.unwrap_or_else(|panic| resume_unwind(panic));
}
