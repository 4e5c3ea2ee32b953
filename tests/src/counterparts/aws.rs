//! Substitutes for AWS: an STS that issues credentials, and a service that verifies signatures.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Command;

use super::{Process, TestError, free_port, python, scratch_dir, until_listening};

/// Startup timeout; interpreters start slowly on a busy machine.
const START: Duration = Duration::from_mins(1);

/// A running `moto` server, whose STS accepts every token.
#[derive(Debug)]
pub struct Sts {
    port: u16,
    _process: Process,
}

/// A running service that recomputes each request's signature with `botocore` and rejects mismatches.
#[derive(Debug)]
pub struct SignedService {
    port: u16,
    keys: PathBuf,
    _process: Process,
}

/// Secret key and session token by access key id.
pub type AccessKeys = BTreeMap<String, [String; 2]>;

impl Sts {
    /// Starts an STS at a free port.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn start() -> Result<Self, TestError> {
        let python = python().await?;
        let port = free_port().await?;
        let mut command = Command::new(python.interpreter());
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p"]).arg(port.to_string());
        let mut process = Process::start("moto", command, false)?;
        until_listening(port, &mut process, START).await?;
        Ok(Self { port, _process: process })
    }

    /// Returns its endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}

impl SignedService {
    /// Starts a service at a free port without known credentials.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn start(region: &str, service: &str) -> Result<Self, TestError> {
        let python = python().await?;
        let port = free_port().await?;
        let keys = scratch_dir()?.join(format!("access-keys-{port}.json"));
        fs::write(&keys, "{}")?;
        let mut command = Command::new(python.interpreter());
        command.arg(python.script("verify_sigv4.py"));
        command.arg(port.to_string()).args([region, service]).arg(&keys);
        let mut process = Process::start("verify_sigv4", command, false)?;
        until_listening(port, &mut process, START).await?;
        Ok(Self { port, keys, _process: process })
    }

    /// Returns its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Replaces the known credentials.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn knows(&self, keys: &AccessKeys) -> Result<(), TestError> {
        Ok(fs::write(&self.keys, serde_json::to_vec(keys)?)?)
    }
}

impl Drop for SignedService {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.keys);
    }
}
