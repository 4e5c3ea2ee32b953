//! A collector of traces and metrics, built on packages of OpenTelemetry and gRPC.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use super::{Process, TestError, free_port, python, scratch_dir, until_listening};

/// Startup timeout; interpreters start slowly on a busy machine.
const START: Duration = Duration::from_mins(1);

/// A running OTLP collector over HTTP and gRPC that requires [`Collector::SECRET`].
#[derive(Debug)]
pub struct Collector {
    http: u16,
    grpc: u16,
    scheme: &'static str,
    file: PathBuf,
    _process: Process,
}

impl Collector {
    /// Required `authorization` header.
    pub const SECRET: &str = "Bearer collector-secret";

    /// Starts a collector at free ports.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn start() -> Result<Self, TestError> {
        Self::start_with(&[]).await
    }

    /// Starts a collector with TLS: a certificate for localhost and its key, as PEM files.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn encrypted(certificate: &Path, key: &Path) -> Result<Self, TestError> {
        Self::start_with(&[certificate, key]).await
    }

    async fn start_with(tls: &[&Path]) -> Result<Self, TestError> {
        let python = python().await?;
        let (http, grpc) = (free_port().await?, free_port().await?);
        let file = scratch_dir()?.join(format!("collected-{http}.jsonl"));
        let mut command = Command::new(python.interpreter());
        command.arg(python.script("otlp.py"));
        command.args([http.to_string(), grpc.to_string()]).arg(&file).args(tls);
        let mut process = Process::start("otlp", command, false)?;
        until_listening(grpc, &mut process, START).await?;
        until_listening(http, &mut process, START).await?;
        let scheme = if tls.is_empty() { "http" } else { "https" };
        Ok(Self { http, grpc, scheme, file, _process: process })
    }

    /// Returns the OTLP/HTTP endpoint.
    #[must_use]
    pub fn http(&self) -> String {
        format!("{}://localhost:{}", self.scheme, self.http)
    }

    /// Returns the OTLP/gRPC endpoint.
    #[must_use]
    pub fn grpc(&self) -> String {
        format!("{}://localhost:{}", self.scheme, self.grpc)
    }

    /// Returns the exports over `http` or `grpc`, of the kind `traces` or `metrics`, as JSON.
    #[must_use]
    pub fn got(&self, over: &str, kind: &str) -> Vec<Value> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines
            .filter(|line| line["over"] == over && line["kind"] == kind)
            .map(|mut line| line["message"].take())
            .collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.file);
    }
}
