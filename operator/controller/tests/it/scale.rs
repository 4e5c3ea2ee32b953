//! A cluster with many servers.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::program::{Program, eventually, start};
use super::support::{Cluster, server};

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

async fn wait_for_servers(cluster: &Cluster, count: usize) {
    eventually(async || {
        let servers = cluster.server.list("vmcp.dev", "virtualmcpservers");
        let complete = servers.iter().filter(|server| {
            let conditions = server["status"]["conditions"].as_array();
            let is_true = |kind: &str| {
                let mut conditions = conditions.into_iter().flatten();
                conditions.any(|one| one["type"] == kind && one["status"] == "True")
            };
            is_true("ObjectsApplied") && is_true("MembersIncluded")
        });
        complete.count() == count && is_quiet(cluster).await
    })
    .await;
}

/// Returns whether nothing but a Lease was written for a second.
async fn is_quiet(cluster: &Cluster) -> bool {
    let count = || {
        let writes = cluster.server.writes();
        writes.iter().filter(|line| !line.starts_with("update leases")).count()
    };
    let before = count();
    tokio::time::sleep(Duration::from_secs(1)).await;
    count() == before
}

/// Returns requests that write anything but the Lease of the operator.
fn writes(cluster: &Cluster) -> Vec<String> {
    let mut writes = cluster.take_writes();
    writes.retain(|line| !line.contains("leases") || line.contains("-vmcp-status"));
    writes
}

/// Returns the number of successful reconciles of servers.
async fn reconciles(program: &Program) -> usize {
    let metrics = program.get("/metrics").await;
    let name = "vmcp_operator_reconciles_total{kind=\"VirtualMCPServer\",result=\"success\"} ";
    let value = metrics.lines().find_map(|line| line.strip_prefix(name));
    value.map_or(0, |value| value.trim().parse().unwrap())
}

/// Returns resident memory in MiB and processor time of a process.
fn usage(program: &Program) -> (usize, Duration) {
    let read =
        |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", program.id())).unwrap();
    let status = read("status");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    let stat = read("stat");
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<u64>().unwrap();
    (kib / 1024, Duration::from_millis((ticks(11) + ticks(12)) * 10))
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_with_many_servers_writes_nothing() {
    let cluster = Cluster::new();
    put_servers(&cluster, 20);
    let program = start(&cluster, "scale").await;
    wait_for_servers(&cluster, 20).await;
    drop(program);
    cluster.take_writes();
    let program = start(&cluster, "scale").await;
    eventually(async || reconciles(&program).await >= 20).await;
    assert_eq!(writes(&cluster), [""; 0]);
}

/// Prints the figures of a cluster with `VMCP_OPERATOR_SERVERS` servers; a measurement of the release binary.
#[tokio::test(flavor = "multi_thread")]
async fn measures_cluster_of_requested_size() {
    let Some(count) =
        std::env::var("VMCP_OPERATOR_SERVERS").ok().and_then(|text| text.parse().ok())
    else {
        eprintln!("VMCP_OPERATOR_SERVERS is not set: skipped");
        return;
    };
    let cluster = Cluster::new();
    let program = start(&cluster, "measurement").await;
    let begin = SystemTime::now();
    put_servers(&cluster, count);
    wait_for_servers(&cluster, count).await;
    let requests = cluster.server.requests().len();
    println!(
        "{count} servers, {} entries: applied after {:?}, {requests} requests, {} a server",
        count * MEMBERS,
        begin.elapsed().unwrap(),
        requests / count,
    );
    println!("memory and processor time: {:?}", usage(&program));
    drop(program);
    cluster.take_writes();
    let begin = SystemTime::now();
    let program = start(&cluster, "measurement").await;
    eventually(async || reconciles(&program).await >= count).await;
    println!(
        "restart: {:?}, {} requests",
        begin.elapsed().unwrap(),
        cluster.server.requests().len()
    );
    let (memory, before) = usage(&program);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let (_, after) = usage(&program);
    println!("at rest: {memory} MiB, {:?} of processor time in 30 s", after.saturating_sub(before));
    assert_eq!(writes(&cluster), [""; 0]);
}
