//! The gateway as it is shipped: the `vmcp` program, with a configuration file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::{
    POLL_INTERVAL, Process, Reply, TestError, free_port, gateway_program, get, scratch_dir,
};

/// Timeout until `/readyz` responds with 200.
const START: Duration = Duration::from_secs(20);

static STARTED: AtomicU64 = AtomicU64::new(0);

/// A running `vmcp serve`.
#[derive(Debug)]
pub struct Gateway {
    url: String,
    config: PathBuf,
    process: Process,
}

impl Gateway {
    /// Starts the gateway with this configuration and waits until it is ready.
    ///
    /// # Errors
    /// Returns an error with the log if the program cannot be built, rejects the configuration, or is not ready in time.
    pub async fn start(yaml: &str) -> Result<Self, TestError> {
        Self::start_with(yaml, &[]).await
    }

    /// As [`Gateway::start`], with further command-line arguments.
    ///
    /// # Errors
    /// As [`Gateway::start`].
    pub async fn start_with(yaml: &str, arguments: &[&str]) -> Result<Self, TestError> {
        Self::run(|_| yaml.to_owned(), arguments, &[]).await
    }

    /// As [`Gateway::start`], with environment variables.
    ///
    /// # Errors
    /// As [`Gateway::start`].
    pub async fn start_among(yaml: &str, variables: &[(&str, &str)]) -> Result<Self, TestError> {
        Self::run(|_| yaml.to_owned(), &[], variables).await
    }

    /// As [`Gateway::start`], with a configuration that contains the URL of the endpoint.
    ///
    /// # Errors
    /// As [`Gateway::start`].
    pub async fn start_knowing(yaml: impl FnOnce(&str) -> String) -> Result<Self, TestError> {
        Self::run(yaml, &[], &[]).await
    }

    /// As [`Gateway::start_knowing`], with environment variables.
    ///
    /// # Errors
    /// As [`Gateway::start`].
    pub async fn start_knowing_among(
        yaml: impl FnOnce(&str) -> String,
        variables: &[(&str, &str)],
    ) -> Result<Self, TestError> {
        Self::run(yaml, &[], variables).await
    }

    /// As [`Gateway::start_with`], with environment variables.
    ///
    /// # Errors
    /// As [`Gateway::start`].
    pub async fn start_with_among(
        yaml: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Self, TestError> {
        Self::run(|_| yaml.to_owned(), arguments, variables).await
    }

    async fn run(
        yaml: impl FnOnce(&str) -> String,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Self, TestError> {
        let program = gateway_program().await?;
        let dir = scratch_dir()?.join("gateways");
        fs::create_dir_all(&dir)?;
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let config = dir.join(format!("{}-{number}.yaml", std::process::id()));
        let port = free_port().await?;
        let address = format!("127.0.0.1:{port}");
        let url = format!("http://{address}/mcp");
        fs::write(&config, yaml(&url))?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(&config);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]).args(arguments);
        command.envs(variables.iter().copied());
        let process = Process::start("vmcp", command, false)?;
        let mut gateway = Self { url, config, process };
        gateway.until_ready(&format!("http://{address}/readyz")).await?;
        Ok(gateway)
    }

    /// Starts a gateway with one backend and without name prefixes.
    ///
    /// # Errors
    /// As [`Gateway::start`].
    pub async fn before(backend: &str) -> Result<Self, TestError> {
        Self::start(&format!(
            "name: tests\n\
             incomingAuth: {{type: anonymous}}\n\
             backends:\n\
             - {{name: fixture, url: \"{backend}\", transport: streamable-http}}\n\
             aggregation:\n  \
               conflictResolution: priority\n  \
               conflictResolutionConfig: {{priorityOrder: [fixture]}}\n"
        ))
        .await
    }

    /// Returns the URL of its MCP endpoint.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns its port on the loopback interface.
    #[must_use]
    pub fn port(&self) -> u16 {
        let port = self.url.trim_end_matches("/mcp").rsplit(':').next();
        port.and_then(|port| port.parse().ok()).unwrap_or_default()
    }

    /// Kills the gateway and waits for its exit.
    ///
    /// # Errors
    /// Returns an error if the process cannot be killed.
    pub async fn kill(self) -> Result<(), TestError> {
        self.process.kill().await
    }

    /// Returns the configuration file, for tests that change it.
    #[must_use]
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Fetches a page such as `/status`.
    ///
    /// # Errors
    /// Returns an error if no complete response arrives in time.
    pub async fn page(&self, path: &str) -> Result<Reply, TestError> {
        get(&self.url.replace("/mcp", path)).await
    }

    /// Sends it a signal, such as `HUP`.
    ///
    /// # Errors
    /// Returns an error if the signal cannot be sent.
    pub async fn signal(&self, name: &str) -> Result<(), TestError> {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().await?;
        if sent.success() { Ok(()) } else { Err(format!("kill ended with {sent}").into()) }
    }

    /// Returns the exit status, if the process has exited.
    ///
    /// # Errors
    /// Returns an error if the system reports no status.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, TestError> {
        self.process.ended()
    }

    /// Waits for the exit of the process.
    ///
    /// # Errors
    /// Returns an error if the system reports no status.
    pub async fn end(&mut self) -> Result<ExitStatus, TestError> {
        self.process.end().await
    }

    /// Returns the end of its log.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    async fn until_ready(&mut self, url: &str) -> Result<(), TestError> {
        let deadline = Instant::now() + START;
        loop {
            if get(url).await.is_ok_and(|reply| reply.status == StatusCode::OK) {
                return Ok(());
            }
            if let Some(end) = self.process.ended()? {
                return Err(format!("the gateway ended with {end}:\n{}", self.log()).into());
            }
            if Instant::now() > deadline {
                return Err(
                    format!("the gateway is not ready after {START:?}:\n{}", self.log()).into()
                );
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}
