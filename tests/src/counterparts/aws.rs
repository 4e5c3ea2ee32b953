//! What stands for AWS: an STS that gives out credentials, and a service that checks signatures.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Command;

use super::{Fault, Process, free_port, python, scratch_dir, until_listening};

/// Until one listens; interpreters start slowly on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A running `moto` server, whose STS takes every token.
#[derive(Debug)]
pub struct Sts {
    port: u16,
    _process: Process,
}

/// A running service that makes each request's signature anew with `botocore`, and takes no other.
#[derive(Debug)]
pub struct SignedService {
    port: u16,
    keys: PathBuf,
    _process: Process,
}

/// What belongs to an access key id.
pub type AccessKeys = BTreeMap<String, [String; 2]>;

impl Sts {
    /// Starts one at a free port.
    ///
    /// # Errors
    /// When it cannot be installed or does not come up.
    pub async fn start() -> Result<Self, Fault> {
        let python = python().await?;
        let port = free_port().await?;
        let mut command = Command::new(python.interpreter());
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p"]).arg(port.to_string());
        let mut process = Process::start("moto", command, false)?;
        until_listening(port, &mut process, START).await?;
        Ok(Self { port, _process: process })
    }

    /// Its endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}

impl SignedService {
    /// Starts one at a free port, that knows no credentials yet.
    ///
    /// # Errors
    /// When it cannot be installed or does not come up.
    pub async fn start(region: &str, service: &str) -> Result<Self, Fault> {
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

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Lets it know these credentials, and no others any more.
    ///
    /// # Errors
    /// When they cannot be written down.
    pub fn knows(&self, keys: &AccessKeys) -> Result<(), Fault> {
        Ok(fs::write(&self.keys, serde_json::to_vec(keys)?)?)
    }
}

impl Drop for SignedService {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.keys);
    }
}
