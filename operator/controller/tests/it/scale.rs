//! A cluster with many servers. `VMCP_OPERATOR_SERVERS` adds a size to those of each run, and `VMCP_OPERATOR_BINARY` names a build
//! to measure. The aim is 64 MiB with 1,000 servers, in a release build.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::program::{Program, start};
use super::support::{Cluster, server};

/// Number of servers in each run of the tests.
const SMALL: usize = 20;

/// Time in which the operator writes nothing, before it counts as done.
const QUIET: Duration = Duration::from_secs(2);

/// Members of a group per server.
const MEMBERS: usize = 5;

/// Stores servers, each with a group of its own.
fn put_servers(cluster: &Cluster, count: usize) {
    for index in 0..count {
        let group = format!("g{index}");
        cluster.put(json!({
            "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPGroup",
            "metadata": {"name": group}, "spec": {},
        }));
        for member in 0..MEMBERS {
            cluster.put(json!({
                "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPServerEntry", "metadata": {"name": format!("e{index}-{member}")},
                "spec": {
                    "remoteUrl": format!("https://e{index}-{member}.example/mcp"), "transport": "streamable-http",
                    "groupRef": {"name": group},
                },
            }));
        }
        cluster.put(server(&format!("s{index}"), |spec| {
            spec["groupRef"] = json!({"name": group});
            spec["outgoingAuth"] = json!({"source": "inline"});
        }));
    }
}

/// Returns the number of servers that was requested.
fn requested() -> Option<usize> {
    std::env::var("VMCP_OPERATOR_SERVERS").ok().map(|text| text.parse().unwrap())
}

/// Makes the pods of each Deployment ready, as the controllers of Kubernetes do.
fn run_deployments(cluster: &Cluster) -> JoinHandle<()> {
    let server = cluster.server.clone();
    let client = kube::Client::new(server.clone(), "default");
    tokio::spawn(async move {
        let deployments: Api<Deployment> = Api::default_namespaced(client);
        let mut events = deployments.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        while let Some(Ok(event)) = events.next().await {
            if let WatchEvent::Added(deployment) = event {
                let object = json!({
                    "apiVersion": "apps/v1", "kind": "Deployment",
                    "metadata": {"name": deployment.metadata.name},
                    "status": {"replicas": 1, "readyReplicas": 1},
                });
                server.put_status(&object).unwrap();
            }
        }
    })
}

/// Waits until all servers are ready and nothing is written any more. Returns the time until they were ready.
async fn wait_for_servers(cluster: &Cluster, count: usize) -> Duration {
    let begin = Instant::now();
    let deadline = begin + Duration::from_secs(60 + count as u64);
    let is_ready = |server: &Value| server["status"]["phase"] == "Ready";
    let pause = Duration::from_millis(if count > 100 { 500 } else { 20 });
    while cluster.server.count("vmcp.dev", "virtualmcpservers", is_ready) < count {
        assert!(Instant::now() < deadline, "all servers become ready");
        tokio::time::sleep(pause).await;
    }
    let ready = begin.elapsed();
    loop {
        let before = writes(cluster).len();
        tokio::time::sleep(QUIET).await;
        if writes(cluster).len() == before {
            return ready;
        }
        assert!(Instant::now() < deadline, "nothing is written any more");
    }
}

/// Returns requests that write anything but the Lease of the operator.
fn writes(cluster: &Cluster) -> Vec<String> {
    let mut writes = cluster.server.writes();
    writes.retain(|line| !line.contains("leases") || line.contains("-vmcp-status"));
    writes
}

/// Returns the number of requests by verb and resource.
fn requests(cluster: &Cluster) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in cluster.server.requests() {
        let subresource = if request.subresource.is_empty() { "" } else { "/status" };
        let line = format!("{} {}{subresource}", request.verb, request.resource);
        *counts.entry(line).or_default() += 1;
    }
    counts
}

/// Returns the number of successful reconciles of servers.
async fn reconciles(program: &Program) -> usize {
    let metrics = program.get("/metrics").await;
    let name = "vmcp_operator_reconciles_total{kind=\"VirtualMCPServer\",result=\"success\"} ";
    let value = metrics.lines().find_map(|line| line.strip_prefix(name));
    value.map_or(0, |value| value.trim().parse().unwrap())
}

/// Returns the resident memory that a process allocated and that of its files, in KiB, and its processor time.
fn usage(program: &Program) -> (usize, usize, Duration) {
    let read =
        |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", program.id())).unwrap();
    let status = read("status");
    let memory = |name: &str| -> usize {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let stat = read("stat");
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<u64>().unwrap();
    let processor = Duration::from_millis((ticks(11) + ticks(12)) * 10);
    (memory("RssAnon"), memory("RssFile"), processor)
}

/// Prints the figures of a cluster with `count` servers, and checks that neither time nor a restart of the operator leads to a
/// write.
async fn measure(count: usize, rest: Duration) {
    let cluster = Cluster::new();
    let deployments = run_deployments(&cluster);
    let program = start(&cluster, &format!("scale-{count}")).await;
    let (before, _, _) = usage(&program);
    put_servers(&cluster, count);
    cluster.server.forget_requests();
    let ready = wait_for_servers(&cluster, count).await;
    let counts = requests(&cluster);
    let total: usize = counts.values().sum();
    println!(
        "{count} servers, {} entries: ready after {ready:?}, {} requests a server: {counts:?}",
        count * MEMBERS,
        total / count,
    );
    print_rest(&cluster, &program, before, rest).await;
    drop(program);
    cluster.server.forget_requests();
    let program = start(&cluster, &format!("scale-{count}")).await;
    let begin = Instant::now();
    while reconciles(&program).await < count {
        assert!(begin.elapsed() < Duration::from_secs(60 + count as u64), "all are reconciled");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("restart: {:?}, {:?}", begin.elapsed(), requests(&cluster));
    assert_eq!(writes(&cluster), [""; 0]);
    print_rest(&cluster, &program, before, rest).await;
    deployments.abort();
}

/// Prints what an operator without work takes, and checks that it writes nothing.
async fn print_rest(cluster: &Cluster, program: &Program, empty: usize, rest: Duration) {
    cluster.server.forget_requests();
    let (_, _, before) = usage(program);
    tokio::time::sleep(rest).await;
    let (allocated, files, after) = usage(program);
    println!(
        "at rest: {allocated} KiB allocated ({empty} before), {files} KiB of files, {:?} of processor time in {rest:?}",
        after.saturating_sub(before)
    );
    assert_eq!(writes(cluster), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_with_many_servers_writes_nothing() {
    measure(SMALL, Duration::from_secs(1)).await;
}

/// The figures that the module's documentation names.
#[tokio::test(flavor = "multi_thread")]
async fn measures_clusters_up_to_requested_size() {
    let Some(count) = requested() else {
        eprintln!("VMCP_OPERATOR_SERVERS is not set: skipped");
        return;
    };
    for size in [1, 100, count] {
        measure(size, Duration::from_secs(30)).await;
    }
}

/// The clock is paused, so that an hour with several reconciles of each server takes little time.
#[tokio::test(start_paused = true)]
async fn unchanged_cluster_is_only_read() {
    let count = requested().unwrap_or(SMALL);
    let mut cluster = Cluster::new();
    let deployments = run_deployments(&cluster);
    put_servers(&cluster, count);
    cluster.start().await;
    cluster.pass(Duration::from_mins(10)).await;
    let servers = cluster.server.list("vmcp.dev", "virtualmcpservers");
    assert!(servers.iter().all(|server| server["status"]["phase"] == "Ready"));
    cluster.server.forget_requests();
    cluster.pass(Duration::from_hours(1)).await;
    let counts = requests(&cluster);
    println!("{count} servers for an hour: {counts:?}");
    assert!(
        counts.keys().all(|line| line.starts_with("get ")
            || line.starts_with("list ")
            || line.starts_with("watch ")),
        "{counts:?}"
    );
    deployments.abort();
}
