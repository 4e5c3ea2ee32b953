//! Discovery against an API server in memory.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![expect(
    clippy::needless_pass_by_value,
    reason = "calls of helpers are shorter with `json!(..)` itself"
)]

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};
use vmcp_api::conversion::{MemberKind, SecretSource, SourceKind};
use vmcp_config::Strategy;
use vmcp_discover::{Discovered, Discovery, DiscoveryProblem, DiscoveryState, Target, Unlisted};
use vmcp_kube_fixture::{ApiServer, Fault, FaultRule};

/// Names of backends, and of what is left out with the reasons.
type Names = (Vec<String>, Vec<(String, String)>);

/// API server with a VirtualMCPServer, and the discovery of its backends.
struct Cluster {
    server: ApiServer,
    secrets: PathBuf,
    discovery: Discovery,
    results: watch::Receiver<DiscoveryState>,
}

impl Cluster {
    /// Starts a discovery after `prepare`, with a VirtualMCPServer.
    async fn start(name: &str, prepare: impl AsyncFnOnce(&ApiServer)) -> Self {
        let with_server = async |server: &ApiServer| {
            virtual_server(server, "team");
            prepare(server).await;
        };
        Self::without_server(name, with_server).await
    }

    /// Starts a discovery after `prepare`.
    async fn without_server(name: &str, prepare: impl AsyncFnOnce(&ApiServer)) -> Self {
        let server = ApiServer::new();
        for definition in vmcp_api::definitions() {
            server.put(&serde_json::to_value(definition).unwrap()).unwrap();
        }
        prepare(&server).await;
        let secrets =
            std::env::temp_dir().join(format!("vmcp-discover-{name}-{}", std::process::id()));
        _ = std::fs::remove_dir_all(&secrets);
        std::fs::create_dir(&secrets).unwrap();
        let target = Target {
            namespace: "default".to_owned(),
            name: "tools".to_owned(),
            secrets: Some(secrets.clone()),
        };
        let discovery = Discovery::start(&Client::new(server.clone(), "default"), target);
        let results = discovery.subscribe();
        Self { server, secrets, discovery, results }
    }

    /// Waits for a result with these backends, and these members that are left out.
    async fn expect(&mut self, backends: &[&str], left_out: &[(&str, &str)]) -> Arc<Discovered> {
        let matches = |state: &DiscoveryState| {
            let found = state.discovered.as_ref();
            found.is_some_and(|found| names(found) == (list(backends), pairs(left_out)))
        };
        let found = timeout(Duration::from_mins(5), self.results.wait_for(matches)).await;
        let found = found.ok().map(|found| found.unwrap().discovered.clone().unwrap());
        let last = self.last();
        found.unwrap_or_else(|| panic!("{last:?}"))
    }

    /// Returns the names of the last result.
    fn last(&self) -> Option<Names> {
        self.results.borrow().discovered.as_ref().map(|found| names(found))
    }

    /// Waits for a problem, or for the end of the last one.
    async fn expect_problem(&mut self, problem: Option<DiscoveryProblem>) {
        let matches = |state: &DiscoveryState| state.problem == problem;
        let is_found =
            timeout(Duration::from_mins(5), self.results.wait_for(matches)).await.is_ok();
        assert!(is_found, "{:?}", self.results.borrow().problem);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.secrets);
    }
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, reason)| ((*name).to_owned(), (*reason).to_owned())).collect()
}

/// Returns the names of the backends, and of what is left out with the reasons.
fn names(found: &Discovered) -> Names {
    let backends = found.backends.iter().map(|backend| backend.name.clone()).collect();
    let left_out = found.left_out.iter();
    let left_out = left_out.map(|one| (one.backend.clone(), one.reason.as_str().to_owned()));
    (backends, left_out.collect())
}

fn put(server: &ApiServer, kind: &str, name: &str, spec: Value) {
    let object = json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    server.put(&object).unwrap();
}

fn api(server: &ApiServer, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("vmcp.dev", "v1beta1", kind));
    let plural = match kind {
        "MCPServerEntry" => "mcpserverentries".to_owned(),
        "MCPRemoteProxy" => "mcpremoteproxies".to_owned(),
        other => format!("{}s", other.to_ascii_lowercase()),
    };
    let resource = ApiResource { plural, ..resource };
    Api::namespaced_with(Client::new(server.clone(), "default"), "default", &resource)
}

fn virtual_server(server: &ApiServer, group: &str) {
    let spec = json!({"groupRef": {"name": group}, "incomingAuth": {"type": "anonymous"}});
    put(server, "VirtualMCPServer", "tools", spec);
}

async fn set_status(server: &ApiServer, kind: &str, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    api(server, kind).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Adds a valid entry, with more fields of its spec.
async fn entry(server: &ApiServer, name: &str, more: Value) {
    let mut spec = json!({
        "remoteUrl": format!("https://{name}.example.com/mcp"), "transport": "streamable-http",
        "groupRef": {"name": "team"},
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    put(server, "MCPServerEntry", name, spec);
    set_status(server, "MCPServerEntry", name, json!({"phase": "Valid"})).await;
}

/// Adds a workload, with or without a URL.
async fn workload(server: &ApiServer, name: &str, url: Option<&str>) {
    put(server, "MCPServer", name, json!({"image": "a", "groupRef": {"name": "team"}}));
    if let Some(url) = url {
        set_status(server, "MCPServer", name, json!({"url": url, "phase": "Ready"})).await;
    }
}

fn header_secret(server: &ApiServer, name: &str, secret: &str) {
    let reference = json!({"name": secret, "key": "key"});
    let spec = json!({
        "type": "headerInjection", "headerInjection": {"headerName": "X-Key", "valueSecretRef": reference},
    });
    put(server, "MCPExternalAuthConfig", name, spec);
}

#[tokio::test(start_paused = true)]
async fn follows_members_of_group() {
    let mut cluster = Cluster::start("members", async |server: &ApiServer| {
        entry(server, "a", json!({})).await;
        workload(server, "pending", None).await;
        entry(server, "stranger", json!({"groupRef": {"name": "other"}})).await;
    })
    .await;
    cluster.expect(&["a"], &[("pending", "UrlUnknown")]).await;
    let server = cluster.server.clone();
    entry(&server, "b", json!({})).await;
    set_status(&server, "MCPServer", "pending", json!({"url": "http://pending/mcp"})).await;
    cluster.expect(&["a", "b", "pending"], &[]).await;
    entry(&server, "b", json!({"groupRef": {"name": "other"}})).await;
    api(&server, "MCPServerEntry").delete("a", &DeleteParams::default()).await.unwrap();
    cluster.expect(&["pending"], &[]).await;
    virtual_server(&server, "other");
    cluster.expect(&["b", "stranger"], &[]).await;
}

#[tokio::test(start_paused = true)]
async fn equal_names_are_left_out_by_kind() {
    let mut cluster = Cluster::start("names", async |server: &ApiServer| {
        entry(server, "a", json!({})).await;
    })
    .await;
    let found = cluster.expect(&["a"], &[]).await;
    assert_eq!(found.backends[0].url.as_str(), "https://a.example.com/mcp");
    workload(&cluster.server, "a", Some("http://a/mcp")).await;
    let found = cluster.expect(&["a"], &[("a", "DuplicateName")]).await;
    assert_eq!(found.backends[0].url.as_str(), "http://a/mcp");
    api(&cluster.server, "MCPServer").delete("a", &DeleteParams::default()).await.unwrap();
    let found = cluster.expect(&["a"], &[]).await;
    assert_eq!(found.backends[0].url.as_str(), "https://a.example.com/mcp");
}

#[tokio::test(start_paused = true)]
async fn member_waits_for_file_of_secret() {
    let mut cluster = Cluster::start("secret", async |server: &ApiServer| {
        header_secret(server, "key", "keys");
        entry(server, "a", json!({"externalAuthConfigRef": {"name": "key"}})).await;
        entry(server, "b", json!({"externalAuthConfigRef": {"name": "none"}})).await;
    })
    .await;
    let missing = [("a", "SecretPending"), ("b", "AuthConfigNotFound")];
    cluster.expect(&[], &missing).await;
    let source = SecretSource::new(SourceKind::Secret, "keys", "key");
    std::fs::write(cluster.secrets.join(source.file()), "canary").unwrap();
    let found = cluster.expect(&["a"], &missing[1..]).await;
    assert!(matches!(found.outgoing_auth.backends["a"], Strategy::HeaderInjection(_)));
    assert!(!format!("{found:?}").contains("canary"));
    header_secret(&cluster.server, "key", "others");
    cluster.expect(&[], &missing).await;
}

#[tokio::test(start_paused = true)]
async fn unreachable_api_server_keeps_last_result() {
    let mut cluster = Cluster::start("outage", async |server: &ApiServer| {
        entry(server, "a", json!({})).await;
    })
    .await;
    cluster.expect(&["a"], &[]).await;
    cluster.server.disturb(FaultRule::new(Fault::Refuse).on_verbs(&["list", "watch"]).times(40));
    cluster.server.drop_watches();
    entry(&cluster.server, "b", json!({})).await;
    cluster.server.compact();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(cluster.last(), Some((list(&["a"]), Vec::new())));
    cluster.expect(&["a", "b"], &[]).await;
}

#[tokio::test(start_paused = true)]
async fn first_result_needs_all_kinds() {
    let mut cluster = Cluster::start("kinds", async |server: &ApiServer| {
        let fault = FaultRule::new(Fault::Status(503)).on_resource("mcpexternalauthconfigs");
        server.disturb(fault.on_verbs(&["list"]).times(3));
        entry(server, "a", json!({})).await;
    })
    .await;
    let first = cluster.discovery.synchronized(Duration::from_millis(300)).await.unwrap_err();
    let message = first.to_string();
    let start = "the API server has not listed mcpexternalauthconfigs (";
    assert!(message.starts_with(start) && message.contains("503"), "{message}");
    cluster.expect(&["a"], &[]).await;
}

#[tokio::test(start_paused = true)]
async fn silent_api_server_ends_wait() {
    let cluster = Cluster::start("silent", async |server: &ApiServer| {
        server.disturb(FaultRule::new(Fault::Delay(Duration::from_hours(1))));
    })
    .await;
    let limit = Duration::from_secs(20);
    let problem = cluster.discovery.synchronized(limit).await.unwrap_err();
    let DiscoveryProblem::NotListed(unlisted) = problem else { panic!("{problem:?}") };
    assert_eq!(unlisted.len(), 6);
    let first = Unlisted { resource: "virtualmcpservers", error: None };
    assert_eq!(unlisted.first(), Some(&first));
}

#[tokio::test(start_paused = true)]
async fn missing_server_ends_wait_and_may_come() {
    let mut cluster = Cluster::without_server("missing", async |server: &ApiServer| {
        entry(server, "a", json!({})).await;
    })
    .await;
    let limit = Duration::from_secs(20);
    let problem = cluster.discovery.synchronized(limit).await.unwrap_err();
    assert_eq!(problem.to_string(), "VirtualMCPServer tools does not exist");
    virtual_server(&cluster.server, "team");
    cluster.expect(&["a"], &[]).await;
    cluster.expect_problem(None).await;
}

#[tokio::test(start_paused = true)]
async fn deleted_server_keeps_last_result() {
    let mut cluster = Cluster::start("deleted", async |server: &ApiServer| {
        entry(server, "a", json!({})).await;
    })
    .await;
    cluster.expect(&["a"], &[]).await;
    let api = api(&cluster.server, "VirtualMCPServer");
    api.delete("tools", &DeleteParams::default()).await.unwrap();
    cluster.expect_problem(Some(DiscoveryProblem::Missing("tools".to_owned()))).await;
    entry(&cluster.server, "b", json!({})).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(cluster.last(), Some((list(&["a"]), Vec::new())));
    virtual_server(&cluster.server, "team");
    cluster.expect(&["a", "b"], &[]).await;
}

#[tokio::test(start_paused = true)]
async fn invalid_server_keeps_last_result() {
    let mut cluster = Cluster::start("invalid", async |server: &ApiServer| {
        entry(server, "a", json!({})).await;
    })
    .await;
    cluster.expect(&["a"], &[]).await;
    // The schema of the API server accepts this; the parser of the configuration does not.
    let spec = json!({
        "groupRef": {"name": "other"}, "incomingAuth": {"type": "anonymous"},
        "config": {"backends": [{"name": "a", "url": "https://u:p@a.example.com", "transport": "sse"}]},
    });
    put(&cluster.server, "VirtualMCPServer", "tools", spec);
    let matches = |state: &DiscoveryState| matches!(&state.problem, Some(DiscoveryProblem::Invalid { errors, .. }) if !errors.is_empty());
    timeout(Duration::from_mins(5), cluster.results.wait_for(matches)).await.unwrap().unwrap();
    assert_eq!(cluster.last(), Some((list(&["a"]), Vec::new())));
}

#[tokio::test(start_paused = true)]
async fn requests_neither_secrets_nor_config_maps() {
    let mut cluster = Cluster::start("role", async |server: &ApiServer| {
        entry(server, "a", json!({})).await;
        server.forget_requests();
    })
    .await;
    cluster.expect(&["a"], &[]).await;
    let requests = cluster.server.requests();
    let found: BTreeSet<(&str, &str)> =
        requests.iter().map(|request| (&*request.verb, &*request.resource)).collect();
    let expected = ["list", "watch"].into_iter().flat_map(|verb| {
        [
            "mcpexternalauthconfigs",
            "mcpremoteproxies",
            "mcpserverentries",
            "mcpservers",
            "mcptoolconfigs",
            "virtualmcpservers",
        ]
        .map(|resource| (verb, resource))
    });
    assert_eq!(found, expected.collect());
    assert!(requests.iter().all(|request| request.namespace == "default"));
}

#[tokio::test(start_paused = true)]
async fn equal_results_are_not_sent_again() {
    let mut cluster = Cluster::start("equal", async |server: &ApiServer| {
        entry(server, "a", json!({})).await;
    })
    .await;
    cluster.expect(&["a"], &[]).await;
    cluster.results.mark_unchanged();
    header_secret(&cluster.server, "unused", "keys");
    std::fs::write(cluster.secrets.join("unused"), "x").unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!cluster.results.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn members_beyond_limit_are_named() {
    let mut cluster = Cluster::start("many", async |server: &ApiServer| {
        for number in 0..1025 {
            workload(server, &format!("m{number:04}"), Some("http://m/mcp")).await;
        }
    })
    .await;
    let found = cluster.discovery.synchronized(Duration::from_mins(5)).await.unwrap();
    assert_eq!(found.backends.len(), 1024);
    assert_eq!(found.surplus, [("m1024".to_owned(), MemberKind::Server)]);
    api(&cluster.server, "MCPServer").delete("m0000", &DeleteParams::default()).await.unwrap();
    let is_complete = |state: &DiscoveryState| {
        state.discovered.as_ref().is_some_and(|found| found.surplus.is_empty())
    };
    timeout(Duration::from_mins(5), cluster.results.wait_for(is_complete)).await.unwrap().unwrap();
}
