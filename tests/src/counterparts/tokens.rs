//! An authorization server with token exchange.

use std::time::Duration;

use tokio::process::Command;

use super::{Process, TestError, free_port, npm, until_listening};

/// Startup timeout; interpreters start slowly on a busy machine.
const START: Duration = Duration::from_mins(1);

/// A running `oidc-provider` with token exchange (RFC 8693). `exchange-tokens.mjs` defines its clients.
#[derive(Debug)]
pub struct TokenServer {
    port: u16,
    process: Process,
}

impl TokenServer {
    /// Starts a server at a free port.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn start() -> Result<Self, TestError> {
        let npm = npm().await?;
        let port = free_port().await?;
        let mut command = Command::new(npm.node24());
        command.arg(npm.script("exchange-tokens.mjs")).arg(port.to_string());
        let mut process = Process::start("exchange-tokens", command, false)?;
        until_listening(port, &mut process, START).await?;
        Ok(Self { port, process })
    }

    /// Returns its token endpoint.
    #[must_use]
    pub fn token_url(&self) -> String {
        format!("http://127.0.0.1:{}/token", self.port)
    }

    /// Kills the server.
    ///
    /// # Errors
    /// Returns an error if the process cannot be killed.
    pub async fn kill(self) -> Result<(), TestError> {
        self.process.kill().await
    }
}
