//! Servers with MCP extensions, which run on Node.js without packages.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{Process, TestError, free_port, get, npm, post, until_listening};

/// Startup timeout; interpreters start slowly on a busy machine.
const START: Duration = Duration::from_mins(1);

/// A running server of `tests/tools/npm`.
#[derive(Debug)]
pub struct ExtensionServer {
    port: u16,
    _process: Process,
}

impl ExtensionServer {
    /// Starts a stateless server with the tasks extension. `tasks-server.mjs` documents its tools.
    ///
    /// # Errors
    /// Returns an error if the startup fails.
    pub async fn tasks() -> Result<Self, TestError> {
        Self::start("tasks-server.mjs", &[]).await
    }

    /// Starts a server with MCP Apps, in both generations. `apps-server.mjs` documents its tools.
    ///
    /// # Errors
    /// Returns an error if the startup fails.
    pub async fn apps(name: &str) -> Result<Self, TestError> {
        Self::start("apps-server.mjs", &[name]).await
    }

    /// As [`ExtensionServer::apps`], with a template that matches all resources and without user interfaces.
    ///
    /// # Errors
    /// Returns an error if the startup fails.
    pub async fn greedy_apps(name: &str) -> Result<Self, TestError> {
        Self::start("apps-server.mjs", &[name, "greedy"]).await
    }

    async fn start(script: &str, arguments: &[&str]) -> Result<Self, TestError> {
        let npm = npm().await?;
        let port = free_port().await?;
        let mut command = Command::new(npm.node24());
        command.arg(npm.script(script)).arg(port.to_string()).args(arguments);
        let mut process = Process::start("a server with extensions", command, false)?;
        until_listening(port, &mut process, START).await?;
        Ok(Self { port, _process: process })
    }

    fn page(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Returns the URL of its MCP endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        self.page("/mcp")
    }

    /// Returns the received requests of this method: `name` is `Mcp-Name`, and `params`.
    ///
    /// # Errors
    /// Returns an error if the server does not respond.
    pub async fn requests(&self, method: &str) -> Result<Vec<Value>, TestError> {
        let reply = get(&self.page("/state")).await?;
        let mut state: Value = serde_json::from_slice(&reply.body)?;
        let Value::Array(requests) = state["requests"].take() else {
            return Err("no requests in /state".into());
        };
        Ok(requests.into_iter().filter(|request| request["method"] == method).collect())
    }

    /// Completes the tasks of `hold`.
    ///
    /// # Errors
    /// Returns an error on another response.
    pub async fn finish(&self) -> Result<(), TestError> {
        let reply = post(&self.page("/finish"), &HeaderMap::new(), &json!({})).await?;
        if reply.status == StatusCode::OK { Ok(()) } else { Err(format!("{reply:?}").into()) }
    }
}
