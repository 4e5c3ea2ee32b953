//! Cluster with a server and replicas that report.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower_service::Service as _;
use vmcp_kube_fixture::ApiServer;
use vmcp_status_reporter::{
    BackendReport, BackendStatus, Counts, Environment, Report, StatusReporter, Target,
};

/// Report of a replica, which a test changes.
pub(crate) type View = Arc<Mutex<Option<Report>>>;

/// API server with the VirtualMCPServer `tools` and its Lease.
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    pub(crate) epoch: Instant,
}

/// Replica that reports.
pub(crate) struct Replica {
    pub(crate) reporter: StatusReporter,
    has_crashed: Arc<AtomicBool>,
}

impl Replica {
    pub(crate) fn counts(&self) -> Counts {
        self.reporter.progress().counts()
    }

    pub(crate) async fn stop(self) {
        self.reporter.stop().await;
    }

    /// Lets no further request arrive, so that the Lease is left to expire.
    pub(crate) fn crash(&self) {
        self.has_crashed.store(true, Ordering::Relaxed);
    }
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let epoch = Instant::now();
        let server = ApiServer::with_clock(move || now(epoch));
        for definition in vmcp_api::definitions() {
            server.put(&serde_json::to_value(definition).unwrap()).unwrap();
        }
        let cluster = Self { server, epoch };
        cluster.put_server();
        cluster.put_lease();
        cluster
    }

    pub(crate) fn put_server(&self) {
        let object = json!({
            "apiVersion": "vmcp.dev/v1beta1", "kind": "VirtualMCPServer", "metadata": {"name": "tools"},
            "spec": {"groupRef": {"name": "team"}, "incomingAuth": {"type": "anonymous"}},
        });
        self.server.put(&object).unwrap();
    }

    pub(crate) fn put_lease(&self) {
        let object = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "tools-vmcp-status"},
        });
        self.server.put(&object).unwrap();
    }

    /// Starts the reporter of a replica, every 30 s.
    pub(crate) fn start(&self, identity: &str, view: &View) -> Replica {
        self.start_every(Duration::from_secs(30), identity, view)
    }

    pub(crate) fn start_every(&self, interval: Duration, identity: &str, view: &View) -> Replica {
        let epoch = self.epoch;
        let environment = Environment::new(move || now(epoch), |bytes| bytes.fill(255));
        let target = Target {
            namespace: "default".to_owned(),
            name: "tools".to_owned(),
            identity: identity.to_owned(),
        };
        let view = Arc::clone(view);
        let source = (interval, move || view.lock().unwrap().clone());
        let has_crashed = Arc::<AtomicBool>::default();
        let client = self.fragile_client(&has_crashed);
        let reporter = StatusReporter::start(client, target, environment, source);
        Replica { reporter, has_crashed }
    }

    /// Returns a client whose requests get lost after a crash.
    fn fragile_client(&self, has_crashed: &Arc<AtomicBool>) -> Client {
        let (server, has_crashed) = (self.server.clone(), Arc::clone(has_crashed));
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (mut server, has_crashed) = (server.clone(), Arc::clone(&has_crashed));
            async move {
                if has_crashed.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                server.call(request).await
            }
        });
        Client::new(service, "default")
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    /// Returns the present time in whole seconds.
    pub(crate) fn now(&self) -> SystemTime {
        Timestamp::from_second(now(self.epoch).as_second()).unwrap().into()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.server.clone(), "default")
    }

    /// Returns the writes of the status so far, and forgets all requests.
    pub(crate) fn take_writes(&self) -> usize {
        let writes = self.server.writes();
        self.server.forget_requests();
        writes.iter().filter(|line| line.contains("virtualmcpservers")).count()
    }

    pub(crate) fn find(&self, group: &str, plural: &str, name: &str) -> Option<Value> {
        self.server.get(group, plural, "default", name)
    }

    pub(crate) fn status(&self) -> Value {
        self.find("vmcp.dev", "virtualmcpservers", "tools").unwrap()["status"].clone()
    }

    /// Returns the backends as `name status`.
    pub(crate) fn backends(&self) -> Vec<String> {
        let status = self.status();
        let backends = status["discoveredBackends"].as_array().cloned().unwrap_or_default();
        let line = |one: &Value| {
            format!("{} {}", one["name"].as_str().unwrap(), one["status"].as_str().unwrap())
        };
        backends.iter().map(line).collect()
    }

    pub(crate) fn condition(&self, type_: &str) -> Option<Value> {
        let status = self.status();
        let conditions = status["conditions"].as_array()?;
        conditions.iter().find(|one| one["type"] == type_).cloned()
    }

    pub(crate) fn holder(&self) -> String {
        let lease = self.find("coordination.k8s.io", "leases", "tools-vmcp-status").unwrap();
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }

    /// Applies a status as another field manager.
    pub(crate) async fn apply_status(&self, manager: &str, status: Value) {
        let kind = GroupVersionKind::gvk("vmcp.dev", "v1beta1", "VirtualMCPServer");
        let resource = ApiResource::from_gvk_with_plural(&kind, "virtualmcpservers");
        let api: Api<DynamicObject> = Api::default_namespaced_with(self.client(), &resource);
        let object = json!({
            "apiVersion": "vmcp.dev/v1beta1", "kind": "VirtualMCPServer",
            "metadata": {"name": "tools"}, "status": status,
        });
        let parameters = PatchParams::apply(manager).force();
        api.patch_status("tools", &parameters, &Patch::Apply(&object)).await.unwrap();
    }
}

/// Returns the time of day: that of the paused clock.
fn now(epoch: Instant) -> Timestamp {
    let elapsed = jiff::SignedDuration::try_from(epoch.elapsed()).unwrap();
    Timestamp::from_second(1_800_000_000).unwrap().checked_add(elapsed).unwrap()
}

pub(crate) fn view(backends: &[BackendReport]) -> View {
    Arc::new(Mutex::new(Some(Report { backends: backends.to_vec() })))
}

pub(crate) fn show(view: &View, backends: &[BackendReport]) {
    *view.lock().unwrap() = Some(Report { backends: backends.to_vec() });
}

pub(crate) fn backend(name: &str, status: BackendStatus) -> BackendReport {
    BackendReport {
        name: name.to_owned(),
        url: format!("http://{name}.example/mcp"),
        status,
        cause: None,
        auth_type: "unauthenticated".to_owned(),
        auth_config: String::new(),
        last_check: None,
        consecutive_failures: 0,
        circuit: None,
    }
}
