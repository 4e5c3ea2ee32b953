//! Commands of the README's first five minutes, word for word, in a directory of a new user.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::{Instant, sleep};
use vmcp_kube_fixture::{ApiServer, kubeconfig};
use vmcp_tests::counterparts::{Process, gateway_program, operator_program, skipped};

use super::support::root;

/// Commands that need what this machine does not have, each with the test that runs the same otherwise.
const NOT_RUN: &[(&str, &str)] = &[
    ("curl -LO https://github.com/", "a release; workflows::binstall_finds_program_in_archive"),
    ("tar -xzf vmcp-", "a release; workflows::archive_has_completions_and_checksum"),
    ("./vmcp-", "a release; tests of vmcp run the demo"),
    ("cargo ", "a release, or a build; workflows::binstall_finds_program_in_archive"),
    ("vmcp serve ", "the port; counterparts start it with others"),
    ("docker run ", "a registry; image::image_of_server_serves_client"),
    ("helm install ", "a registry; operator_chart::chart_and_printed_manifests_are_equal"),
    ("kubectl port-forward ", "pods; server_chart::rendered_server_serves_client"),
    ("claude ", "a client with an account; tests with real clients"),
];

/// Place of the manifests after a release.
const RELEASED: &str =
    concat!("https://raw.githubusercontent.com/vmcp-dev/vmcp/v", env!("CARGO_PKG_VERSION"), "/");

/// Time for the operator to write its objects.
const WRITES: Duration = Duration::from_secs(30);

/// Returns the section of the README.
fn section() -> String {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, rest) = readme.split_once("## First five minutes\n").unwrap();
    rest.split_once("\n## ").unwrap().0.to_owned()
}

/// Returns the commands of the section, with their continued lines joined.
fn commands() -> Vec<String> {
    let section = section();
    let blocks = section.split("```sh\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    let joined = blocks.map(|block| block.replace("\\\n", "")).collect::<String>();
    joined.lines().map(str::to_owned).collect()
}

/// A new user's directory, and a cluster.
struct User {
    folder: PathBuf,
    server: ApiServer,
}

impl User {
    async fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("first-minutes");
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).unwrap();
        let programs = [gateway_program().await.unwrap(), operator_program().await.unwrap()];
        for (program, name) in programs.iter().zip(["vmcp", "vmcp-operator"]) {
            std::os::unix::fs::symlink(program, folder.join("bin").join(name)).unwrap();
        }
        let server = ApiServer::new();
        fs::write(folder.join("config"), kubeconfig(server.serve().await.unwrap())).unwrap();
        Self { folder, server }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.folder.join("bin").display()));
        command.env("HOME", &self.folder).env("KUBECONFIG", self.folder.join("config"));
        command.current_dir(&self.folder);
        command
    }

    async fn run(&self, line: &str) {
        let output = self.command("bash").args(["-euo", "pipefail", "-c", line]).output().await;
        let output = output.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
    }

    /// Starts the operator with the environment of its Deployment.
    fn start_operator(&self) -> Process {
        let mut command = self.command("vmcp-operator");
        command.args([
            "run",
            "--leader-elect",
            "--listen=127.0.0.1:0",
            "--webhook-listen=127.0.0.1:0",
        ]);
        command.env("POD_NAMESPACE", "vmcp-system").env("POD_NAME", "first");
        let deployment = self.server.get("apps", "deployments", "vmcp-system", "vmcp-operator");
        let container = &deployment.unwrap()["spec"]["template"]["spec"]["containers"][0];
        for variable in container["env"].as_array().unwrap() {
            if let Some(value) = variable["value"].as_str() {
                command.env(variable["name"].as_str().unwrap(), value);
            }
        }
        Process::start("operator", command, false).unwrap()
    }

    /// Waits for the Deployment of the gateway.
    async fn deployment(&self) -> Value {
        let deadline = Instant::now() + WRITES;
        loop {
            if let Some(deployment) = self.server.get("apps", "deployments", "tools", "tools-vmcp")
            {
                return deployment;
            }
            assert!(Instant::now() < deadline, "the operator wrote: {:?}", self.server.writes());
            sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn commands_run_or_have_a_reason() {
    let commands = commands();
    for command in &commands {
        let is_run =
            ["kubectl ", "vmcp ", "vmcp-operator "].iter().any(|one| command.starts_with(one));
        assert!(is_run || NOT_RUN.iter().any(|(start, _)| command.starts_with(start)), "{command}");
    }
    for (start, reason) in NOT_RUN {
        assert!(commands.iter().any(|command| command.starts_with(start)), "{start}: {reason}");
    }
}

#[tokio::test]
async fn commands_of_first_minutes_work() {
    if skipped() {
        return;
    }
    let user = User::new().await;
    if user.command("kubectl").args(["version", "--client"]).output().await.is_err() {
        eprintln!("skipped: kubectl is not installed");
        return;
    }
    let manifests = format!("{}/", root().canonicalize().unwrap().display());
    for command in commands() {
        if !NOT_RUN.iter().any(|(start, _)| command.starts_with(start)) {
            user.run(&command.replace(RELEASED, &manifests)).await;
        }
    }
    let _operator = user.start_operator();
    let deployment = user.deployment().await;
    let text = section();
    let row = text.lines().find(|line| line.starts_with("tools   Ready")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    let server = user.server.get("vmcp.dev", "virtualmcpservers", "tools", "tools").unwrap();
    assert_eq!(server["status"]["url"], cells[2]);
    let members = user.server.list("vmcp.dev", "mcpserverentries").len();
    assert_eq!(members.to_string(), cells[3]);
    // The image of the release, and the Service of the port-forward.
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let image = concat!("ghcr.io/vmcp-dev/vmcp:", env!("CARGO_PKG_VERSION"));
    assert_eq!(container["image"], image);
    assert!(text.contains(image));
    let service = user.server.get("", "services", "tools", "vmcp-tools").unwrap();
    assert_eq!(service["spec"]["ports"][0]["port"], 4483);
}

#[test]
fn columns_are_those_of_definition() {
    let path = root().join("operator/crds/virtualmcpservers.yaml");
    let definition: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let columns = &definition["spec"]["versions"][0]["additionalPrinterColumns"];
    let names = columns.as_array().unwrap().iter().map(|column| column["name"].as_str().unwrap());
    let expected: Vec<_> = ["Name"].into_iter().chain(names).map(str::to_uppercase).collect();
    let text = section();
    let header = text.lines().find(|line| line.starts_with("NAME")).unwrap();
    assert_eq!(header.split_whitespace().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn example_manifests_are_valid() {
    let mut command = Command::new(operator_program().await.unwrap());
    let output = command.args(["check", "-f"]).arg(root().join("examples/kubernetes")).output();
    let output = output.await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
}
