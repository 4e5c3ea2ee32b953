//! An MCP client's configuration file, imported by `vmcp init --from`, with the stdio bridges that it prints running.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;

use super::process::output;
use super::{
    Gateway, Process, TestError, folder, free_port, gateway_program, python, until_listening,
};

/// Startup timeout of a bridge; interpreters start slowly on a busy machine.
const START: Duration = Duration::from_mins(1);

/// A gateway with an imported configuration, and its bridges.
#[derive(Debug)]
pub struct ImportedFile {
    /// The gateway.
    pub gateway: Gateway,
    /// The configuration.
    pub configuration: String,
    /// The last message of `init`.
    pub message: String,
    bridges: Vec<Process>,
}

impl ImportedFile {
    /// Imports the file `name` with this text, starts each bridge by the command in the comments, as a shell would, then
    /// the gateway. Both run with `variables`.
    ///
    /// # Errors
    /// Returns an error if a program fails, or a bridge or the gateway is not ready in time.
    pub async fn start(
        name: &str,
        text: &str,
        variables: &[(&str, &str)],
    ) -> Result<Self, TestError> {
        let folder = folder("client")?;
        let file = folder.join(name);
        fs::create_dir_all(file.parent().unwrap_or(&folder))?;
        fs::write(&file, text)?;
        let written = folder.join("vmcp.yaml");
        let mut command = Command::new(gateway_program().await?);
        command.args(["init", "--from"]).arg(&file).arg("--output").arg(&written);
        command.stderr(std::process::Stdio::piped());
        let ended = command.output().await?;
        let message = String::from_utf8_lossy(&ended.stderr).into_owned();
        if !ended.status.success() {
            return Err(format!("init ended with {}: {message}", ended.status).into());
        }
        let mut configuration = fs::read_to_string(&written)?;
        let mut bridges = Vec::new();
        let path = search_path().await?;
        for line in configuration.clone().lines() {
            let Some(command) = line.strip_prefix("  #   ") else { continue };
            let (command, port) = at_free_port(command, &mut configuration).await?;
            let mut shell = Command::new("sh");
            shell.args(["-c", &command]).env("PATH", &path).envs(variables.iter().copied());
            let mut bridge = Process::start("printed-bridge", shell, false)?;
            until_listening(port, &mut bridge, START).await?;
            bridges.push(bridge);
        }
        let gateway = Gateway::start_among(&configuration, variables).await?;
        Ok(Self { gateway, configuration, message, bridges })
    }

    /// Returns the number of running bridges.
    #[must_use]
    pub fn bridges(&self) -> usize {
        self.bridges.len()
    }
}

/// Starts the command at a free port and sets that port in the configuration, because tests run in parallel.
async fn at_free_port(
    command: &str,
    configuration: &mut String,
) -> Result<(String, u16), TestError> {
    let printed = command.rsplit_once("port=").and_then(|(_, rest)| rest.strip_suffix(")'"));
    let printed = printed.ok_or_else(|| format!("no port in {command}"))?;
    let port = free_port().await?;
    *configuration = configuration
        .replace(&format!("http://127.0.0.1:{printed}/"), &format!("http://127.0.0.1:{port}/"));
    Ok((command.replace(&format!("port={printed})"), &format!("port={port})")), port))
}

/// Returns the directories of `vmcp`, of Python with its packages, and of the system.
async fn search_path() -> Result<String, TestError> {
    let of = |program: PathBuf| program.parent().map(Path::to_path_buf).unwrap_or_default();
    let folders = [of(gateway_program().await?), of(python().await?.interpreter())];
    let system = std::env::var("PATH").unwrap_or_default();
    let own = folders.iter().map(|folder| folder.to_string_lossy()).collect::<Vec<_>>().join(":");
    // Requested once here, so that an installation failure is reported as such.
    let mut check = Command::new("python3");
    check.env("PATH", format!("{own}:{system}")).args(["-c", "import fastmcp"]);
    output("python3", check).await?;
    Ok(format!("{own}:{system}"))
}
