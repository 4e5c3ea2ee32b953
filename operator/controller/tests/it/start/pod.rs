//! A pod of a plan as a process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use vmcp_api::conversion::{SECRETS_PATH, SecretEntry, SecretSource};
use vmcp_operator::Settings;
use vmcp_operator::manifests::{Manifests, RenderedServer};
use vmcp_operator::plan::{CONFIG_FILE, CONFIG_PATH, SEAL_KEY, SEAL_PATH};

use super::files::value;

/// Name of the Service, which clients put into the header Host.
pub(super) const HOST: &str = "vmcp-a.team.svc.cluster.local:4483";

/// Time in which a server starts on a machine under load.
const START: Duration = Duration::from_mins(2);

/// Pod that runs.
pub(super) struct Pod {
    child: tokio::sync::Mutex<Child>,
    port: u16,
    /// Port of the administration endpoints.
    admin: u16,
    configuration: String,
    arguments: Vec<String>,
    /// Directory with the files of secrets.
    secrets: PathBuf,
    log: Arc<Mutex<String>>,
}

/// Returns the directory of a test.
pub(super) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("start").join(name)
}

/// Returns the first message of a client.
pub(super) fn initialize() -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    })
}

/// Container of a pod, and contents of the files that are mounted.
pub(super) struct Planned {
    pub(super) configuration: String,
    pub(super) secrets: Vec<SecretEntry>,
    pub(super) container: Container,
}

impl From<RenderedServer> for Planned {
    fn from(rendered: RenderedServer) -> Self {
        let data = rendered.plan.config_map.data.as_ref().unwrap();
        let configuration = data[CONFIG_FILE].clone();
        let secrets = rendered.conversion.secrets.clone();
        Self { configuration, secrets, container: container(rendered) }
    }
}

impl Pod {
    /// Plans the only server of some manifests, writes its files as they would be mounted, and starts it.
    pub(super) fn start(name: &str, manifests: &str) -> Self {
        Self::start_with(name, render(manifests).into(), &[])
    }

    /// Starts a planned server with variables besides those of the plan.
    pub(super) fn start_with(
        name: &str,
        Planned { configuration, secrets: entries, container }: Planned,
        variables: &[(&str, &str)],
    ) -> Self {
        let folder = scratch(name).join("pod");
        _ = fs::remove_dir_all(&folder);
        let mount = |path: &str| folder.join(path.trim_start_matches('/'));
        let local = |text: &str| text.replace("/etc/vmcp", mount("/etc/vmcp").to_str().unwrap());
        for path in [CONFIG_PATH, SECRETS_PATH, SEAL_PATH] {
            fs::create_dir_all(mount(path)).unwrap();
        }
        fs::write(mount(CONFIG_PATH).join(CONFIG_FILE), local(&configuration)).unwrap();
        fs::write(mount(SEAL_PATH).join(SEAL_KEY), "0123456789abcdef".repeat(4)).unwrap();
        for entry in &entries {
            let content = entry.source.content(value(&entry.source).as_bytes());
            fs::write(mount(SECRETS_PATH).join(&entry.file), content).unwrap();
        }
        let secrets = mount(SECRETS_PATH);
        let (port, peers, admin) = (free_port(), free_port(), free_port());
        let arguments = container.args.clone().unwrap();
        let local_arguments: Vec<_> = arguments
            .iter()
            .map(|argument| local(argument))
            .map(|argument| argument.replace("--port=4483", &format!("--port={port}")))
            .map(|argument| argument.replace(":4485", &format!(":{peers}")))
            .collect();
        let mut command = Command::new(program());
        command.args(local_arguments).arg(format!("--admin-listen=127.0.0.1:{admin}"));
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null());
        for variable in container.env.clone().unwrap() {
            let value = variable.value.unwrap_or_else(|| match variable.name.as_str() {
                "POD_IP" => "127.0.0.1".to_owned(),
                _ => "a-vmcp-0".to_owned(),
            });
            command.env(variable.name, local(&value));
        }
        command.env("KUBECONFIG", kubeconfig(&scratch(name)));
        command.envs(variables.iter().copied());
        let (child, log) = spawn(&mut command);
        Self { child: child.into(), port, admin, configuration, arguments, secrets, log }
    }

    pub(super) fn configuration(&self) -> &str {
        &self.configuration
    }

    /// Returns the arguments as planned.
    pub(super) fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Writes the copy of a key, as the operator and the kubelet do.
    pub(super) fn mount_secret(&self, source: &SecretSource, value: &str) {
        let file = self.secrets.join(source.file());
        let aside = self.secrets.join("..aside");
        fs::write(&aside, source.content(value.as_bytes())).unwrap();
        fs::rename(aside, file).unwrap();
    }

    /// Writes another configuration, as the operator and the kubelet do.
    pub(super) fn write_configuration(&self, text: &str) {
        let folder = self.secrets.parent().unwrap().join("config");
        let aside = folder.join("aside");
        fs::write(&aside, text).unwrap();
        fs::rename(aside, folder.join(CONFIG_FILE)).unwrap();
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Waits until the readiness probe succeeds.
    pub(super) async fn until_ready(&self) {
        self.until(async || self.get("/readyz").await.starts_with("HTTP/1.1 200 ")).await;
    }

    pub(super) async fn get(&self, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n");
        send(self.port, &request).await.unwrap_or_default()
    }

    /// Returns the body of `/status`.
    pub(super) async fn status(&self) -> Value {
        let body = self.admin("/status").await;
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// Returns the body of an administration endpoint.
    pub(super) async fn admin(&self, path: &str) -> String {
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n");
        let response = send(self.admin, &request).await.unwrap();
        let (_, body) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{response}"));
        body.to_owned()
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> String {
        self.post_to(HOST, path, body).await
    }

    pub(super) async fn post_to(&self, host: &str, path: &str, body: &Value) -> String {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        send(self.port, &request).await.unwrap()
    }

    /// Stops the server as the kubelet does, and waits for its end.
    pub(super) async fn stop(&self) {
        let mut child = self.child.lock().await;
        let id = child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
        let end = tokio::time::timeout(START, child.wait()).await.unwrap().unwrap();
        assert!(end.success(), "{end}\n{}", self.log());
    }

    /// Kills the server.
    pub(super) async fn kill(&self) {
        self.child.lock().await.kill().await.unwrap();
    }

    pub(super) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until something is so, while the server runs.
    pub(super) async fn until(&self, is_so: impl AsyncFn() -> bool) {
        self.until_or(is_so, String::new).await;
    }

    /// Waits until something is so, and shows something else otherwise.
    pub(super) async fn until_or(&self, is_so: impl AsyncFn() -> bool, shown: impl Fn() -> String) {
        let wait = async {
            while !is_so().await {
                let ended = self.child.lock().await.try_wait().unwrap();
                assert!(ended.is_none(), "{ended:?}\n{}\n{}", self.log(), self.configuration);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let result = tokio::time::timeout(START, wait).await;
        assert!(result.is_ok(), "it does not become so\n{}\n{}", shown(), self.log());
    }
}

async fn send(port: u16, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

/// Starts the process, and collects its log.
fn spawn(command: &mut Command) -> (Child, Arc<Mutex<String>>) {
    let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let log = Arc::new(Mutex::new(String::new()));
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let written = Arc::clone(&log);
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            let mut log = written.lock().unwrap();
            log.push_str(&line);
            log.push('\n');
        }
    });
    (child, log)
}

/// Writes the kubeconfig of a pod whose API server is away, and returns its path.
fn kubeconfig(folder: &Path) -> PathBuf {
    let path = folder.join("kubeconfig");
    fs::write(&path, vmcp_kube_fixture::kubeconfig(([127, 0, 0, 1], 1).into())).unwrap();
    path
}

/// Renders the only server of some manifests.
pub(super) fn render(manifests: &str) -> RenderedServer {
    let documents = serde_saphyr::from_multiple(manifests).unwrap();
    let manifests = Manifests::read(documents, Settings::new("example.com/vmcp:1"));
    assert_eq!(manifests.check(), []);
    let mut reports = manifests.render();
    reports.pop().and_then(|report| report.rendered).expect("a server is rendered")
}

fn container(rendered: RenderedServer) -> Container {
    let spec = rendered.plan.deployment.spec.unwrap().template.spec.unwrap();
    spec.containers.into_iter().next().unwrap()
}

/// Returns a port that is free, below those that the system gives to connections.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let next = std::process::id() + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(20_000 + next % 12_000).unwrap();
        if std::net::TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

/// Returns the program of the server: `VMCP_BIN`, or else the one beside the operator's, built if it is absent or has no access
/// to Kubernetes.
pub(crate) fn program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(find_program).clone()
}

fn find_program() -> PathBuf {
    if let Some(program) = std::env::var_os("VMCP_BIN") {
        return program.into();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_vmcp-operator")).with_file_name("vmcp");
    if !has_kubernetes(&program) {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = std::process::Command::new(cargo)
            .args(["build", "--package", "vmcp", "--bin", "vmcp", "--features", "kubernetes"])
            .status()
            .unwrap();
        assert!(built.success());
    }
    program
}

/// Returns `true` if the program exists and was built with the feature `kubernetes`.
fn has_kubernetes(program: &Path) -> bool {
    let output = std::process::Command::new(program).args(["version", "-o", "json"]).output();
    let Ok(output) = output else { return false };
    let version: Value = serde_json::from_slice(&output.stdout).unwrap();
    version["features"].as_array().is_some_and(|features| features.contains(&"kubernetes".into()))
}
