//! A collector of traces and metrics, of parts that OpenTelemetry and gRPC publish.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use super::{Fault, Process, free_port, python, scratch_dir, until_listening};

/// Until it listens; interpreters start slowly on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A running collector that speaks OTLP over HTTP and over gRPC, and wants [`Collector::SECRET`].
#[derive(Debug)]
pub struct Collector {
    http: u16,
    grpc: u16,
    scheme: &'static str,
    file: PathBuf,
    _process: Process,
}

impl Collector {
    /// The `authorization` that it wants.
    pub const SECRET: &str = "Bearer collector-secret";

    /// Starts one at free ports.
    ///
    /// # Errors
    /// When it cannot be installed or does not come up.
    pub async fn start() -> Result<Self, Fault> {
        Self::start_with(&[]).await
    }

    /// Starts one that speaks TLS, with a certificate for localhost and its key: PEM files.
    ///
    /// # Errors
    /// When it cannot be installed or does not come up.
    pub async fn encrypted(certificate: &Path, key: &Path) -> Result<Self, Fault> {
        Self::start_with(&[certificate, key]).await
    }

    async fn start_with(tls: &[&Path]) -> Result<Self, Fault> {
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

    /// Where it speaks OTLP over HTTP.
    #[must_use]
    pub fn http(&self) -> String {
        format!("{}://localhost:{}", self.scheme, self.http)
    }

    /// Where it speaks OTLP over gRPC.
    #[must_use]
    pub fn grpc(&self) -> String {
        format!("{}://localhost:{}", self.scheme, self.grpc)
    }

    /// What it was sent over `http` or `grpc`, of the kind `traces` or `metrics`, as JSON.
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
