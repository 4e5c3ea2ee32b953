//! An authorization server that exchanges tokens.

use std::time::Duration;

use tokio::process::Command;

use super::{Fault, Process, free_port, npm, until_listening};

/// Until it listens; interpreters start slowly on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A running `oidc-provider` whose token endpoint knows RFC 8693. `exchange-tokens.mjs` says which clients it has.
#[derive(Debug)]
pub struct TokenServer {
    port: u16,
    process: Process,
}

impl TokenServer {
    /// Starts one at a free port.
    ///
    /// # Errors
    /// When it cannot be installed or does not come up.
    pub async fn start() -> Result<Self, Fault> {
        let npm = npm().await?;
        let port = free_port().await?;
        let mut command = Command::new(npm.node24());
        command.arg(npm.script("exchange-tokens.mjs")).arg(port.to_string());
        let mut process = Process::start("exchange-tokens", command, false)?;
        until_listening(port, &mut process, START).await?;
        Ok(Self { port, process })
    }

    /// Its token endpoint.
    #[must_use]
    pub fn token_url(&self) -> String {
        format!("http://127.0.0.1:{}/token", self.port)
    }

    /// Ends it at once.
    ///
    /// # Errors
    /// When it cannot be ended.
    pub async fn kill(self) -> Result<(), Fault> {
        self.process.kill().await
    }
}
