//! Cluster with an operator.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use vmcp_kube_fixture::ApiServer;
use vmcp_operator::{Environment, LostLeadership, Operator, Settings};

use super::operator_roles::{Scope, USER, bind};

/// API server with the resources of vmcp, and an operator that runs against it.
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    clock: Clock,
    operator: Option<RunningOperator>,
    /// API server as the operator reaches it: with its roles alone.
    operator_server: ApiServer,
}

/// Clock of a cluster: that of the test, and the days that were skipped.
#[derive(Clone)]
struct Clock {
    epoch: Instant,
    skipped: Arc<AtomicI64>,
}

/// Operator that runs.
pub(crate) struct RunningOperator {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), LostLeadership>>,
}

/// Time in which all that has to happen has happened. The clock of the tests is paused, so that it takes none.
const SETTLED: Duration = Duration::from_mins(1);

/// API server with the resources of vmcp alone.
static DEFINITIONS: LazyLock<ApiServer> = LazyLock::new(|| {
    let server = ApiServer::with_clock(start_of_time);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds");
    for file in std::fs::read_dir(folder).unwrap() {
        server.put_yaml(&std::fs::read_to_string(file.unwrap().path()).unwrap()).unwrap();
    }
    server
});

impl Cluster {
    /// Creates a cluster without an operator.
    pub(crate) fn new() -> Self {
        Self::with_roles(Scope::Cluster, "default")
    }

    /// Creates a cluster in which the operator of a namespace has its permissions in a scope.
    pub(crate) fn with_roles(scope: Scope, operator_namespace: &str) -> Self {
        let clock = Clock { epoch: Instant::now(), skipped: Arc::default() };
        let of_server = clock.clone();
        let server = DEFINITIONS.fork(move || of_server.now());
        bind(&server, scope, operator_namespace);
        let operator_server = server.as_user(USER);
        Self { server, clock, operator: None, operator_server }
    }

    /// Creates a cluster with an operator and a ready group `tools`.
    pub(crate) async fn running() -> Self {
        let mut cluster = Self::new();
        cluster.put_group();
        cluster.start().await;
        cluster.take_writes();
        cluster
    }

    /// Creates a cluster with an operator, a ready group and the server `a`.
    pub(crate) async fn with_server() -> Self {
        let cluster = Self::running().await;
        cluster.put(server("a", |_| {}));
        cluster.settle().await;
        cluster.take_writes();
        cluster
    }

    /// Starts an operator and waits until nothing happens any more.
    pub(crate) async fn start(&mut self) {
        self.start_operator(|operator| operator);
        self.settle().await;
    }

    /// Sets the clock of the cluster and of its operators forward, without the timers of that time.
    pub(crate) fn skip_days(&self, days: i64) {
        self.clock.skipped.fetch_add(days, Ordering::Relaxed);
    }

    pub(crate) fn start_operator(&mut self, options: impl FnOnce(Operator) -> Operator) {
        let clock = self.clock.clone();
        let counter = Arc::new(AtomicU8::new(1));
        let random = move |bytes: &mut [u8]| bytes.fill(counter.fetch_add(1, Ordering::Relaxed));
        let environment = Environment::new(move || clock.now(), random);
        let operator = options(Operator::new(Settings::new("example.com/vmcp:1"), environment));
        let client = Client::new(self.operator_server.clone(), "default");
        let (stop, stopped) = oneshot::channel::<()>();
        let task =
            tokio::spawn(async move { operator.run(client, async { drop(stopped.await) }).await });
        self.operator = Some(RunningOperator { stop, task });
    }

    /// Takes the operator, which goes on.
    pub(crate) fn take_operator(&mut self) -> RunningOperator {
        self.operator.take().unwrap()
    }

    pub(crate) async fn stop(&mut self) {
        self.take_operator().stop().await.unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.take_operator().abort();
    }

    pub(crate) async fn settle(&self) {
        self.pass(SETTLED).await;
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Returns the writes so far but events, and forgets all requests.
    pub(crate) fn take_writes(&self) -> Vec<String> {
        let mut writes = self.server.writes();
        writes.retain(|line| !line.starts_with("create events"));
        self.server.forget_requests();
        writes
    }

    /// Stores the group `tools`.
    pub(crate) fn put_group(&self) {
        self.put(json!({
            "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPGroup",
            "metadata": {"name": "tools"}, "spec": {},
        }));
    }

    /// Stores an object with its status.
    pub(crate) fn put(&self, mut object: Value) {
        // A test may have read an object before the operator wrote it.
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        // `kubectl apply` keeps the finalizers of others.
        let (group, plural) = resource(object["kind"].as_str().unwrap());
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        let name = object["metadata"]["name"].as_str().unwrap();
        if let Some(present) = self.server.get(group, plural, namespace, name)
            && object["metadata"]["finalizers"].is_null()
        {
            object["metadata"]["finalizers"] = present["metadata"]["finalizers"].clone();
        }
        self.server.put(&object).unwrap();
        if object.get("status").is_some() {
            self.put_status(&object);
        }
    }

    /// Makes pods of a server ready, as the controllers of Kubernetes do.
    pub(crate) fn make_ready(&self, name: &str, pods: i32) {
        let mut deployment = self.get("Deployment", &format!("{name}-vmcp"));
        deployment["status"] = json!({"replicas": pods, "readyReplicas": pods});
        self.put_status(&deployment);
    }

    /// Changes the status of a server as its pods do.
    pub(crate) async fn report_backends(&self, name: &str, backends: Value) {
        let object = json!({
            "apiVersion": "vmcp.dev/v1beta1", "kind": "VirtualMCPServer", "metadata": {"name": name},
            "status": {"discoveredBackends": backends},
        });
        let parameters = PatchParams::apply("vmcp").force();
        self.api("VirtualMCPServer")
            .patch_status(name, &parameters, &Patch::Apply(object))
            .await
            .unwrap();
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::background()).await.unwrap();
    }

    /// Deletes an object, and leaves what it owns.
    pub(crate) async fn orphan(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::orphan()).await.unwrap();
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, plural) = resource(kind);
        let version = if group == "vmcp.dev" { "v1beta1" } else { "v1" };
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        let client = Client::new(self.server.clone(), "default");
        Api::default_namespaced_with(client, &resource)
    }

    /// Stores the status of an object.
    pub(crate) fn put_status(&self, object: &Value) {
        let mut object = object.clone();
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        self.server.put_status(&object).unwrap();
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Value {
        self.find(kind, name).unwrap_or_else(|| panic!("{kind} {name} does not exist"))
    }

    pub(crate) fn find(&self, kind: &str, name: &str) -> Option<Value> {
        let (group, plural) = resource(kind);
        self.server.get(group, plural, "default", name)
    }

    /// Returns the configuration of the webhook of the Service `webhook`.
    pub(crate) fn find_configuration(&self) -> Option<Value> {
        let (group, plural) = resource("ValidatingWebhookConfiguration");
        self.server.get(group, plural, "", "vmcp-operator-webhook.default")
    }

    pub(crate) fn status(&self, name: &str) -> Value {
        self.get("VirtualMCPServer", name)["status"].clone()
    }

    /// Returns status, reason and message of a condition of a server.
    pub(crate) fn condition(&self, name: &str, type_: &str) -> Option<(String, String, String)> {
        self.condition_of("VirtualMCPServer", name, type_)
    }

    /// Returns status, reason and message of a condition.
    pub(crate) fn condition_of(
        &self,
        kind: &str,
        name: &str,
        type_: &str,
    ) -> Option<(String, String, String)> {
        let status = self.get(kind, name)["status"].clone();
        let conditions = status["conditions"].as_array()?;
        let found = conditions.iter().find(|condition| condition["type"] == type_)?;
        let text = |field: &str| found[field].as_str().unwrap().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    /// Returns the reason of a condition of a server, with `!` in front if its status is False.
    pub(crate) fn reason(&self, name: &str, type_: &str) -> String {
        self.reason_of("VirtualMCPServer", name, type_)
    }

    /// Returns the reason of a condition, with `!` in front if its status is False.
    pub(crate) fn reason_of(&self, kind: &str, name: &str, type_: &str) -> String {
        let found = self.condition_of(kind, name, type_);
        let Some((status, reason, _)) = found else { return "-".to_owned() };
        if status == "False" { format!("!{reason}") } else { reason }
    }

    /// Returns the events so far: type, reason and note.
    pub(crate) fn events(&self) -> Vec<String> {
        let all = self.server.list("events.k8s.io", "events");
        let line = |event: &Value| {
            let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}: {}", text("type"), text("reason"), text("note"))
        };
        all.iter().map(line).collect()
    }
}

/// Returns a resource of vmcp.
pub(crate) fn resource_of(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "vmcp.dev/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

impl Drop for Cluster {
    /// Checks that the operator's roles have allowed all that it did.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.server.lacked_permissions(USER), BTreeSet::new());
        }
    }
}

fn start_of_time() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

impl Clock {
    fn now(&self) -> Timestamp {
        let passed = jiff::SignedDuration::try_from(self.epoch.elapsed()).unwrap();
        let skipped = jiff::SignedDuration::from_hours(24 * self.skipped.load(Ordering::Relaxed));
        start_of_time().checked_add(passed + skipped).unwrap()
    }
}

/// Returns a server of the group `tools` without authentication, with a change of its spec.
pub(crate) fn server(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut server = json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": "VirtualMCPServer", "metadata": {"name": name},
        "spec": {"groupRef": {"name": "tools"}, "incomingAuth": {"type": "anonymous"}},
    });
    change(&mut server["spec"]);
    server
}

/// Returns group and plural name of a kind.
pub(crate) fn resource(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "CustomResourceDefinition" => ("apiextensions.k8s.io", "customresourcedefinitions"),
        "Deployment" => ("apps", "deployments"),
        "StatefulSet" => ("apps", "statefulsets"),
        "Role" => ("rbac.authorization.k8s.io", "roles"),
        "RoleBinding" => ("rbac.authorization.k8s.io", "rolebindings"),
        "Lease" => ("coordination.k8s.io", "leases"),
        "ConfigMap" => ("", "configmaps"),
        "Secret" => ("", "secrets"),
        "Service" => ("", "services"),
        "ServiceAccount" => ("", "serviceaccounts"),
        "PodDisruptionBudget" => ("policy", "poddisruptionbudgets"),
        "NetworkPolicy" => ("networking.k8s.io", "networkpolicies"),
        "Ingress" => ("networking.k8s.io", "ingresses"),
        "HTTPRoute" => ("gateway.networking.k8s.io", "httproutes"),
        "ServiceMonitor" => ("monitoring.coreos.com", "servicemonitors"),
        "Namespace" => ("", "namespaces"),
        "ValidatingWebhookConfiguration" => {
            ("admissionregistration.k8s.io", "validatingwebhookconfigurations")
        }
        "VirtualMCPServer" => ("vmcp.dev", "virtualmcpservers"),
        "MCPGroup" => ("vmcp.dev", "mcpgroups"),
        "MCPServerEntry" => ("vmcp.dev", "mcpserverentries"),
        "EmbeddingServer" => ("vmcp.dev", "embeddingservers"),
        "MCPExternalAuthConfig" => ("vmcp.dev", "mcpexternalauthconfigs"),
        "MCPOIDCConfig" => ("vmcp.dev", "mcpoidcconfigs"),
        "MCPTelemetryConfig" => ("vmcp.dev", "mcptelemetryconfigs"),
        "MCPToolConfig" => ("vmcp.dev", "mcptoolconfigs"),
        "MCPServer" => ("vmcp.dev", "mcpservers"),
        "MCPRemoteProxy" => ("vmcp.dev", "mcpremoteproxies"),
        "VirtualMCPCompositeToolDefinition" => ("vmcp.dev", "virtualmcpcompositetooldefinitions"),
        other => panic!("{other}"),
    }
}

// === impl RunningOperator ===

impl RunningOperator {
    /// Stops the operator as SIGTERM does.
    pub(crate) async fn stop(self) -> Result<(), LostLeadership> {
        self.stop.send(()).unwrap();
        self.task.await.unwrap()
    }

    /// Ends the operator at once.
    pub(crate) fn abort(&self) {
        self.task.abort();
    }

    /// Waits until the operator ends.
    pub(crate) async fn wait(self) -> Result<(), LostLeadership> {
        self.task.await.unwrap()
    }
}
