//! Images, run as by a container runtime: with a read-only root of their own, and without privileges.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{Instant, sleep};
use vmcp_kube_fixture::{ApiServer, kubeconfig};
use vmcp_tests::counterparts::{
    Client, Era, Fixture, Plan, Process, free_port, gateway_program, get, operator_program,
    skipped, until_listening,
};
use vmcp_tests::fixture::Generation;

use super::support::root;

/// Time to unpack and start; debug builds start slowly on a busy machine.
const START: Duration = Duration::from_mins(1);

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns an empty directory.
fn directory(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("image").join(name);
    _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn script(name: &str) -> Command {
    let mut command = Command::new("python3");
    command.arg(root().join("tests/tools/image").join(name));
    command
}

/// Builds the image of a program in a directory.
async fn build(program: &Path, output: &Path, options: &[&str]) {
    let mut command = script("image.py");
    command.args(["build", "--title=test", "--version=1", "--level=1", "--program"]).arg(program);
    let output = command.arg("--output").arg(output).args(options).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Variables that must not change what a program does.
const HOSTILE: [&str; 7] = [
    "PATH=",
    "HOME=/nowhere",
    "TMPDIR=/nowhere",
    "LANG=no_SUCH",
    "TZ=../../etc/passwd",
    "RUST_LOG=trace",
    "LD_PRELOAD=/nowhere.so",
];

/// Starts the image of a program of the workspace, whose build has shared libraries. `mounted` is at `/etc/mounted`.
async fn start(name: &str, program: &Path, mounted: &Path, arguments: &[&str]) -> Process {
    let folder = directory(&format!("{name}-root"));
    let layout = folder.join("layout");
    build(program, &layout, &["--libraries"]).await;
    let mut command = script("container.py");
    command.arg(layout).arg(folder.join("root"));
    command.arg("--volume").arg(format!("{}:/etc/mounted", mounted.display()));
    let variables = ["KUBECONFIG=/etc/mounted/config", "POD_NAME=pod", "POD_IP=127.0.0.1"];
    for variable in HOSTILE.into_iter().chain(variables) {
        command.args(["--env", variable]);
    }
    command.arg("--").args(arguments);
    Process::start(name, command, false).unwrap()
}

/// Calls a tool through a server.
async fn call(port: u16, tool: &str) -> String {
    let url = format!("http://127.0.0.1:{port}/mcp");
    let plan = Plan { tool: Some(tool.to_owned()), ..Plan::default() };
    Client::TypeScript2.run(&url, Era::Auto, &plan).await.unwrap().call.unwrap()
}

/// Checks that the process has no privileges, and cannot write but to `/tmp`.
fn check_confinement(process: &Process) {
    let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", process.id())).unwrap();
    let status = read("status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(field("Uid:").iter().all(|user| user != "0"), "{status}");
    for set in ["CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(set), ["0000000000000000"], "{set}");
    }
    assert_eq!(field("NoNewPrivs:"), ["1"]);
    let mounts = read("mountinfo");
    let mut seen = Vec::new();
    for mount in mounts.lines() {
        let fields: Vec<_> = mount.split(' ').collect();
        let is_read_only = fields[5].split(',').any(|option| option == "ro");
        assert_eq!(is_read_only, fields[4] != "/tmp", "{mount}");
        seen.push(fields[4]);
    }
    assert_eq!(seen, ["/", "/etc/mounted", "/tmp"], "no directory of the machine is there");
}

#[tokio::test]
async fn image_of_server_serves_client() {
    if skipped() {
        return;
    }
    let backend = Fixture::start(Generation::Both).await.unwrap();
    let mounted = directory("server");
    let config = format!(
        "{{name: image, incomingAuth: {{type: anonymous}}, backends: [\
         {{name: fixture, url: \"{}\", transport: streamable-http}}]}}",
        backend.url()
    );
    fs::write(mounted.join("config.yaml"), config).unwrap();
    let port = free_port().await.unwrap();
    let option = format!("--port={port}");
    let arguments = ["serve", "--config=/etc/mounted/config.yaml", &option];
    let program = gateway_program().await.unwrap();
    let mut process = start("server-image", &program, &mounted, &arguments).await;
    until_listening(port, &mut process, START).await.unwrap();
    check_confinement(&process);
    assert!(call(port, "fixture_test_simple_text").await.contains("simple text response"));
}

/// Stores a group with one server behind an URL, as its controller would report it, and a server that discovers it.
fn discovered_cluster(url: &str) -> ApiServer {
    let server = ApiServer::new();
    for definition in vmcp_api::definitions() {
        server.put(&serde_json::to_value(definition).unwrap()).unwrap();
    }
    let object = |kind: &str, name: &str, spec: Value| {
        let metadata = json!({"name": name, "namespace": "team"});
        json!({"apiVersion": "vmcp.dev/v1beta1", "kind": kind, "metadata": metadata, "spec": spec})
    };
    let group = json!({"name": "tools"});
    let mut member = object(
        "MCPServer",
        "fixture",
        json!({"image": "i", "transport": "streamable-http", "groupRef": group}),
    );
    let gateway = json!({
        "groupRef": group, "incomingAuth": {"type": "anonymous"},
        "outgoingAuth": {"source": "discovered"},
    });
    server
        .put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}))
        .unwrap();
    server.put(&object("MCPGroup", "tools", json!({}))).unwrap();
    server.put(&member).unwrap();
    member["status"] = json!({"url": url, "phase": "Ready"});
    server.put_status(&member).unwrap();
    server.put(&object("VirtualMCPServer", "gateway", gateway)).unwrap();
    server
}

#[tokio::test]
async fn image_of_server_discovers_backends() {
    if skipped() {
        return;
    }
    let backend = Fixture::start(Generation::Both).await.unwrap();
    let cluster = discovered_cluster(backend.url());
    let mounted = directory("discovery");
    fs::write(mounted.join("config"), kubeconfig(cluster.serve().await.unwrap())).unwrap();
    let config = "{name: gateway, groupRef: tools, incomingAuth: {type: anonymous}, outgoingAuth: {source: discovered}}";
    fs::write(mounted.join("config.yaml"), config).unwrap();
    let port = free_port().await.unwrap();
    let option = format!("--port={port}");
    let arguments = [
        "serve",
        "--config=/etc/mounted/config.yaml",
        "--virtual-mcp-server=team/gateway",
        &option,
    ];
    let program = gateway_program().await.unwrap();
    let mut process = start("discovering-image", &program, &mounted, &arguments).await;
    until_listening(port, &mut process, START).await.unwrap();
    check_confinement(&process);
    assert!(call(port, "fixture_test_simple_text").await.contains("simple text response"));
}

#[tokio::test]
async fn image_of_operator_reaches_cluster() {
    if skipped() {
        return;
    }
    let server = ApiServer::new();
    let mounted = directory("operator");
    fs::write(mounted.join("config"), kubeconfig(server.serve().await.unwrap())).unwrap();
    let port = free_port().await.unwrap();
    let option = format!("--listen=127.0.0.1:{port}");
    let arguments = ["run", "--image=example.com/vmcp:1", "--no-webhook", &option];
    let program = operator_program().await.unwrap();
    let mut process = start("operator-image", &program, &mounted, &arguments).await;
    until_listening(port, &mut process, START).await.unwrap();
    check_confinement(&process);
    let health = get(&format!("http://127.0.0.1:{port}/healthz")).await.unwrap();
    assert_eq!(health.status, 200);
    let deadline = Instant::now() + START;
    while server.requests().is_empty() {
        assert!(Instant::now() < deadline, "{}", process.log());
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns the digest of the image in a layout, and its configuration.
fn image(layout: &Path) -> (String, Value) {
    let read = |path: PathBuf| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap().to_owned();
        (read(layout.join("blobs").join(digest.replace(':', "/"))), digest)
    };
    let (manifest, digest) = blob(&read(layout.join("index.json"))["manifests"][0]);
    (digest, blob(&manifest["config"]).0)
}

#[tokio::test]
async fn equal_programs_give_equal_digests() {
    let folder = directory("digests");
    let program = folder.join("vmcp");
    let mut digests = Vec::new();
    for (index, content) in ["a", "a", "b"].iter().enumerate() {
        // A new file with another time.
        fs::write(&program, content).unwrap();
        let layout = folder.join(index.to_string());
        build(&program, &layout, &["--port=4483"]).await;
        let (digest, image) = image(&layout);
        let config = &image["config"];
        assert_eq!(config["User"], "65532:65532");
        assert_eq!(config["Entrypoint"][0], "/vmcp");
        assert!(config["ExposedPorts"]["4483/tcp"].is_object());
        digests.push(digest);
    }
    assert_eq!(digests[0], digests[1]);
    assert_ne!(digests[0], digests[2]);
}

#[tokio::test]
async fn image_has_program_and_roots_alone() {
    let folder = directory("content");
    fs::write(folder.join("vmcp"), "a").unwrap();
    build(&folder.join("vmcp"), &folder.join("layout"), &[]).await;
    let blobs = fs::read_dir(folder.join("layout/blobs/sha256")).unwrap();
    let blobs: Vec<_> = blobs.map(|entry| entry.unwrap().path()).collect();
    let archive = blobs.iter().find(|path| fs::read(path).unwrap().starts_with(&[0x1f, 0x8b]));
    let mut command = Command::new("tar");
    command.arg("--list").arg("--gzip").arg("--verbose").arg("--numeric-owner").arg("--file");
    let output = command.env("TZ", "UTC").arg(archive.unwrap()).output().await.unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let mut names = Vec::new();
    for line in listed.lines() {
        let fields: Vec<_> = line.split_whitespace().collect();
        assert_eq!((fields[1], fields[3], fields[4]), ("0/0", "1970-01-01", "00:00"), "{line}");
        names.push(fields[5].trim_end_matches('/'));
    }
    let expected = [
        "etc",
        "etc/group",
        "etc/nsswitch.conf",
        "etc/passwd",
        "etc/ssl",
        "etc/ssl/certs",
        "etc/ssl/certs/ca-certificates.crt",
        "tmp",
        "vmcp",
    ];
    assert_eq!(names, expected);
}

#[tokio::test]
async fn program_with_shared_libraries_is_refused() {
    let output = directory("refused").join("layout");
    let mut command = script("image.py");
    command.args(["build", "--title=test", "--version=1", "--program", "/bin/ls", "--output"]);
    let output = command.arg(output).output().await.unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("/bin/ls is not static: build it for the image"), "{message}");
}
