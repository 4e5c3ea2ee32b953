//! An identity provider with key rotation.

use std::path::PathBuf;
use std::time::Duration;
use std::{fs, process};

use tokio::process::Command;

use super::{Process, TestError, free_port, npm, scratch_dir, until_listening};

/// Startup timeout; interpreters start slowly on a busy machine.
const START: Duration = Duration::from_mins(1);

/// A running `oidc-provider`. `identity.mjs` defines its clients and resources.
#[derive(Debug)]
pub struct IdentityProvider {
    port: u16,
    keys: PathBuf,
    process: Option<Process>,
}

impl IdentityProvider {
    /// Starts a provider at a free port.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn start() -> Result<Self, TestError> {
        let port = free_port().await?;
        let keys = scratch_dir()?.join(format!("keys-{}-{port}.json", process::id()));
        let mut this = Self { port, keys, process: None };
        this.rotate().await?;
        Ok(this)
    }

    /// Returns its issuer.
    #[must_use]
    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Restarts it with new signing keys; the older ones are still published.
    ///
    /// # Errors
    /// Returns an error if the startup fails.
    pub async fn rotate(&mut self) -> Result<(), TestError> {
        self.stop().await?;
        let npm = npm().await?;
        let mut command = Command::new(npm.node24());
        command.arg(npm.script("identity.mjs")).arg(self.port.to_string()).arg(&self.keys);
        let mut process = Process::start("identity", command, false)?;
        until_listening(self.port, &mut process, START).await?;
        self.process = Some(process);
        Ok(())
    }

    /// Kills the provider.
    ///
    /// # Errors
    /// Returns an error if the process cannot be killed.
    pub async fn stop(&mut self) -> Result<(), TestError> {
        match self.process.take() {
            Some(process) => process.kill().await,
            None => Ok(()),
        }
    }
}

impl Drop for IdentityProvider {
    fn drop(&mut self) {
        // Each provider has its own keys, so a remaining file does no harm.
        let _ = fs::remove_file(&self.keys);
    }
}
