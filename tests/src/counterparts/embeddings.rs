//! An embedding service with a real model.

use std::time::Duration;

use tokio::process::Command;

use super::install::embedding_model;
use super::{Process, TestError, free_port, until_listening};

/// Startup timeout; the model is read from a file of 90 MB.
const START: Duration = Duration::from_mins(1);

/// A running service of all-MiniLM-L6-v2, with the API of text-embeddings-inference.
#[derive(Debug)]
pub struct EmbeddingServer {
    port: u16,
    _process: Process,
}

impl EmbeddingServer {
    /// Starts a service at a free port.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn start() -> Result<Self, TestError> {
        let python = embedding_model().await?;
        let port = free_port().await?;
        let mut command = Command::new(python.interpreter());
        command.arg(python.script("embed.py")).arg(port.to_string());
        let mut process = Process::start("embed", command, false)?;
        until_listening(port, &mut process, START).await?;
        Ok(Self { port, _process: process })
    }

    /// Returns the base URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}
