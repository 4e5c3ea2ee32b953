//! The binary against an API server over TCP.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use kube::api::PostParams;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use vmcp_kube_fixture::kubeconfig;

use super::support::{Cluster, server};

/// The operator as a process.
pub(crate) struct Program {
    child: Child,
    endpoints: String,
    /// Address of the webhook.
    webhook: SocketAddr,
}

/// Starts the binary, and waits until its endpoints listen.
pub(crate) async fn start(cluster: &Cluster, name: &str) -> Program {
    let address = cluster.server.serve().await.unwrap();
    let config = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&config, kubeconfig(address)).unwrap();
    // A measurement names a release build.
    let binary = std::env::var_os("VMCP_OPERATOR_BINARY");
    let binary = binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_vmcp-operator").into());
    let mut child = Command::new(binary)
        .args(["run", "--image=example.com/vmcp:1", "--listen=127.0.0.1:0", "--leader-elect"])
        .args(["--webhook-listen=127.0.0.1:0", "--webhook-service=vmcp-operator-webhook"])
        .env("KUBECONFIG", &config)
        .env("POD_NAMESPACE", "default")
        .env("POD_NAME", "operator-0")
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut address = async |field: &str| loop {
        let line = lines.next_line().await.unwrap().expect("the operator logs its address");
        let entry: serde_json::Value = serde_json::from_str(&line).unwrap();
        if let Some(address) = entry["fields"][field].as_str() {
            break address.to_owned();
        }
    };
    let endpoints = address("address").await;
    let webhook = address("webhook").await.parse().unwrap();
    // The pipe has to be read, or the operator would wait.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Program { child, endpoints, webhook }
}

impl Program {
    pub(crate) fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.endpoints).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }
}

/// Waits until something is so.
pub(crate) async fn eventually(is_so: impl AsyncFn() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(3), wait).await.expect("it becomes so");
}

#[tokio::test]
async fn program_reconciles_and_stops_on_signal() {
    let cluster = Cluster::new();
    cluster.put_group();
    let mut program = start(&cluster, "program").await;
    eventually(async || program.get("/readyz").await.starts_with("HTTP/1.1 200")).await;
    assert!(program.get("/healthz").await.starts_with("HTTP/1.1 200"));
    assert!(program.get("/other").await.starts_with("HTTP/1.1 404"));
    cluster.put(server("a", |_| {}));
    eventually(async || cluster.reason("a", "ObjectsApplied") == "ObjectsApplied").await;
    cluster.make_ready("a", 1);
    eventually(async || cluster.status("a")["phase"] == "Ready").await;
    let metrics = program.get("/metrics").await;
    for line in [
        "vmcp_operator_leader 1",
        "vmcp_operator_watched_objects{kind=\"VirtualMCPServer\"} 1",
        "vmcp_operator_reconciles_total{kind=\"VirtualMCPServer\",result=\"success\"}",
        "vmcp_operator_api_requests_total{method=\"PATCH\",status=\"201\"}",
        "vmcp_operator_reconcile_duration_seconds_count{kind=\"VirtualMCPServer\"}",
        "vmcp_operator_queued_objects 0",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    let id = program.child.id().unwrap().to_string();
    let kill = Command::new("kill").args(["-TERM", &id]).status().await.unwrap();
    assert!(kill.success());
    assert!(program.child.wait().await.unwrap().success());
    assert_eq!(cluster.get("Lease", "vmcp-operator-leader")["spec"]["holderIdentity"], "");
}

#[tokio::test]
async fn program_refuses_invalid_server_at_admission() {
    let cluster = Cluster::new();
    cluster.put_group();
    let program = start(&cluster, "webhook-program").await;
    cluster.server.route_service("default", "vmcp-operator-webhook", program.webhook);
    let configured = async || cluster.find_configuration().is_some();
    eventually(configured).await;
    let servers = cluster.api("VirtualMCPServer");
    let invalid = server("a", |spec| {
        spec["incomingAuth"]["authzConfig"] =
            serde_json::json!({"type": "inline", "inline": {"policies": ["permit("]}});
    });
    let invalid = serde_json::from_value(invalid).unwrap();
    let error = servers.create(&PostParams::default(), &invalid).await.unwrap_err();
    assert!(error.to_string().contains("policies[0]"), "{error}");
    let metrics = program.get("/metrics").await;
    let line =
        "vmcp_operator_webhook_reviews_total{kind=\"VirtualMCPServer\",outcome=\"denied\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn program_outside_of_pod_needs_no_webhook() {
    let config = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside-of-pod");
    std::fs::write(&config, kubeconfig(([127, 0, 0, 1], 9).into())).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_vmcp-operator"))
        .args(["run", "--image=example.com/vmcp:1", "--listen=127.0.0.1:0", "--openshift=false"])
        .env("KUBECONFIG", &config)
        .env_remove("POD_NAMESPACE")
        .output()
        .await
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("set POD_NAMESPACE, or add --no-webhook"), "{text}");
}

#[tokio::test]
async fn kubectl_shows_state_of_server() {
    if Command::new("kubectl").args(["version", "--client"]).output().await.is_err() {
        eprintln!("kubectl is not installed: skipped");
        return;
    }
    let cluster = Cluster::new();
    cluster.put_group();
    let _program = start(&cluster, "kubectl-operator").await;
    let config = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubectl-operator");
    let run = async |arguments: &[&str], input: String| {
        let mut child = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(&config)
            .args(arguments)
            .env("HOME", env!("CARGO_TARGET_TMPDIR"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let applied = run(&["apply", "-f", "-"], server("a", |_| {}).to_string()).await;
    assert_eq!(applied, "virtualmcpserver.vmcp.dev/a created");
    eventually(async || cluster.find("Deployment", "a-vmcp").is_some()).await;
    cluster.make_ready("a", 1);
    eventually(async || cluster.status("a")["phase"] == "Ready").await;
    let url = run(&["get", "vmcp", "a", "-o", "jsonpath={.status.url}"], String::new()).await;
    assert_eq!(url, "http://vmcp-a.default.svc.cluster.local:4483/mcp");
    let wait = ["wait", "--for=condition=Ready", "vmcp/a", "--timeout=10s"];
    assert_eq!(run(&wait, String::new()).await, "virtualmcpserver.vmcp.dev/a condition met");
    run(&["delete", "vmcp", "a"], String::new()).await;
    eventually(async || cluster.find("Deployment", "a-vmcp").is_none()).await;
}
