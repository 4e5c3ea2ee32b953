//! Runs of the conformance suite's scenarios for authorization servers.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;
use tokio::time::timeout;

use super::{Check, Person, Process, Status, TestError, free_port, get, npm, scratch_dir};

/// Timeout of the suite's next output; interpreters start slowly on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

static RUNS: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    id: String,
    status: Status,
    error_message: Option<String>,
}

/// Runs all scenarios against the server `issuer`, as the public client `client` with loopback redirect URIs at any
/// port; `person` logs in.
///
/// # Errors
/// Returns an error if the suite cannot be installed or does not finish. Unmet requirements are not errors.
pub async fn run_authorization_suite(
    issuer: &str,
    client: &str,
    mut person: Person,
) -> Result<Vec<Check>, TestError> {
    let npm = npm().await?;
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let folder = format!("{}-authorization-{number}", std::process::id());
    let dir = scratch_dir()?.join("runs").join(folder);
    let mut command = Command::new(npm.node24());
    command
        .arg(npm.module("@modelcontextprotocol/conformance").join("dist/index.js"))
        .args(["authorization", "--url", issuer, "--client-id", client, "-p"])
        .arg(free_port().await?.to_string())
        .arg("-o")
        .arg(&dir);
    let mut process = Process::start("authorization-suite", command, true)?;
    let (mut lines, _input) = process.lines()?;
    let mut said = String::new();
    while let Some(line) = timeout(WAIT_TIMEOUT, lines.next_line()).await?? {
        if line.starts_with(issuer) && line.contains("code_challenge=") {
            // The browser follows the server's redirect to the suite.
            let back = person.logs_in(&line).await?;
            get(&back).await?;
        }
        said.push_str(&line);
        said.push('\n');
    }
    process.end().await?;
    let mut checks = Vec::new();
    for entry in fs::read_dir(&dir)? {
        let entry = entry?;
        let scenario = entry.file_name().to_string_lossy().into_owned();
        let written = fs::read(entry.path().join("checks.json"))?;
        for Written { id, status, error_message } in serde_json::from_slice::<Vec<_>>(&written)? {
            checks.push(Check { scenario: scenario.clone(), id, status, error: error_message });
        }
    }
    fs::remove_dir_all(&dir)?;
    if checks.is_empty() { Err(said.into()) } else { Ok(checks) }
}
