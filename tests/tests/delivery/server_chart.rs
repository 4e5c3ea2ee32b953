//! Chart of a server without an operator: the program accepts what it renders, and serves with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use vmcp_tests::counterparts::{
    Client, Era, Fixture, Plan, Process, Release, free_port, gateway_program, until_listening,
};
use vmcp_tests::fixture::Generation;

use super::cases;
use super::support::{RELEASE, arguments, chart, container, find, helm, names, objects, render};

/// Time to start; debug builds start slowly on a busy machine.
const START: Duration = Duration::from_secs(20);

/// Volumes of a pod, as directories.
struct Volumes(PathBuf);

impl Volumes {
    /// Writes the configuration of the objects, keys, secrets, and a token.
    fn new(name: &str, objects: &[Value]) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("server-chart").join(name);
        for volume in ["config", "seal", "secrets", "admin"] {
            fs::create_dir_all(folder.join(volume)).unwrap();
        }
        let config = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
        let text = config["data"]["config.yaml"].as_str().unwrap();
        fs::write(folder.join("config/config.yaml"), text).unwrap();
        fs::write(folder.join("seal/ring"), "0f".repeat(32)).unwrap();
        for variable in ["KEY", "GITHUB_TOKEN"] {
            fs::write(folder.join("secrets").join(variable), "a-value").unwrap();
        }
        fs::write(folder.join("admin/token"), "a-token-of-some-length").unwrap();
        Self(folder)
    }

    /// Returns the argument with its path in the container replaced.
    fn map(&self, argument: &str) -> String {
        argument.replace("/etc/vmcp", self.0.to_str().unwrap())
    }
}

/// Returns the arguments of the server's container.
fn server_arguments(objects: &[Value], volumes: &Volumes) -> Vec<String> {
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    arguments(container(deployment)).iter().map(|argument| volumes.map(argument)).collect()
}

/// Runs the program, and returns what it prints.
async fn run(arguments: &[String]) -> Result<String, String> {
    let mut command = Command::new(gateway_program().await.unwrap());
    command.env("VMCP_SESSION_REDIS_PASSWORD", "a").args(arguments);
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = format!("{}{}", text(&output.stdout), text(&output.stderr));
    if output.status.success() { Ok(printed) } else { Err(printed) }
}

/// Returns the values of the chart's README.
fn readme_values() -> Value {
    let readme = fs::read_to_string(chart("vmcp").join("README.md")).unwrap();
    let (_, rest) = readme.split_once("```yaml\n# values.yaml\n").unwrap();
    serde_saphyr::from_str(rest.split_once("```").unwrap().0).unwrap()
}

#[tokio::test]
async fn program_accepts_rendered_configuration_and_arguments() {
    let Some(helm) = helm().await else { return };
    for (case, values) in cases::of("vmcp").into_iter().chain([("readme", readme_values())]) {
        let objects = render(&helm, "vmcp", &values).await.unwrap();
        let volumes = Volumes::new(&case.replace(' ', "-"), &objects);
        let mut arguments = server_arguments(&objects, &volumes);
        let mut validate = vec!["validate".to_owned()];
        let of_file = |one: &&String| one.starts_with("--config") || one.starts_with("--env-dir");
        validate.extend(arguments.iter().filter(of_file).cloned());
        run(&validate).await.unwrap_or_else(|error| panic!("{case}: {error}"));
        // The arguments in front of it are parsed, and nothing runs.
        arguments.push("--help".to_owned());
        let printed = run(&arguments).await.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert!(printed.contains("Usage"), "{case}");
    }
}

#[tokio::test]
async fn rendered_server_serves_client() {
    let Some(helm) = helm().await else { return };
    let backend = Fixture::start(Generation::Both).await.unwrap();
    let values = json!({
        "config": {
            "incomingAuth": {"type": "anonymous"},
            "backends": [{"name": "fixture", "url": backend.url(), "transport": "streamable-http"}],
        },
        "allowAnonymousNetwork": true,
    });
    let objects = render(&helm, "vmcp", &values).await.unwrap();
    let volumes = Volumes::new("served", &objects);
    let port = free_port().await.unwrap();
    let peers = free_port().await.unwrap();
    let on_loopback = |argument: String| match argument.split_once('=') {
        Some(("--host", _)) => "--host=127.0.0.1".to_owned(),
        Some(("--port", _)) => format!("--port={port}"),
        Some(("--peer-listen", _)) => format!("--peer-listen=127.0.0.1:{peers}"),
        _ => argument,
    };
    let mut command = Command::new(gateway_program().await.unwrap());
    command.args(server_arguments(&objects, &volumes).into_iter().map(on_loopback));
    command.env("POD_IP", "127.0.0.1");
    let mut process = Process::start("chart-server", command, false).unwrap();
    until_listening(port, &mut process, START).await.unwrap();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let plan = Plan { tool: Some("fixture_test_simple_text".to_owned()), ..Plan::default() };
    let report = Client::TypeScript2.run(&url, Era::Auto, &plan).await.unwrap();
    assert!(report.call.unwrap().contains("simple text response"));
}

#[tokio::test]
async fn releases_share_no_object() {
    let Some(helm) = helm().await else { return };
    let mut all = BTreeSet::new();
    let mut count = 0;
    for (name, namespace) in [("vmcp", "a"), ("vmcp", "b"), ("other", "b")] {
        let release = Release { name, namespace };
        let text = helm.template(&chart("vmcp"), release, &json!({})).await.unwrap();
        let names = names(&objects(&text));
        count += names.len();
        all.extend(names);
    }
    assert_eq!(all.len(), count, "{all:?}");
}

#[tokio::test]
async fn generated_key_is_random_and_valid() {
    let Some(helm) = helm().await else { return };
    let mut keys = Vec::new();
    for _ in 0..2 {
        let objects = render(&helm, "vmcp", &json!({})).await.unwrap();
        let secret = find(&objects, "Secret", &format!("{}-vmcp-seal", RELEASE.name));
        assert_eq!(secret["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
        let key = secret["data"]["ring"].as_str().unwrap();
        let key = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, key).unwrap();
        assert!(key.len() == 64 && key.iter().all(u8::is_ascii_hexdigit));
        keys.push(key);
    }
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn only_storage_and_telemetry_restart_pods() {
    let Some(helm) = helm().await else { return };
    let hash = async |values: Value| {
        let objects = render(&helm, "vmcp", &values).await.unwrap();
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        deployment["spec"]["template"]["metadata"]["annotations"]["vmcp.dev/restart-hash"].clone()
    };
    let plain = hash(json!({})).await;
    assert_eq!(hash(json!({"config": {"metadata": {"a": "b"}}})).await, plain);
    assert_ne!(hash(json!({"redis": {"address": "r:6379"}})).await, plain);
    assert_ne!(hash(json!({"serviceMonitor": {"enabled": true}})).await, plain);
}
