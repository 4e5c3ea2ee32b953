//! MCP servers to put behind the gateway: the fixture, and servers of other projects.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::process::{ChildStdin, Command};
use tokio::time::timeout;

use super::{Npm, Process, TestError, free_port, npm, post, profile_dir, python, until_listening};
use crate::fixture::Generation;

/// Startup timeout; interpreters start slowly on a busy machine.
const START: Duration = Duration::from_mins(1);

/// A running `vmcp-fixture`.
#[derive(Debug)]
pub struct Fixture {
    url: String,
    generation: Generation,
    process: Process,
    _input: ChildStdin,
}

/// A running server of another project.
#[derive(Debug)]
pub struct Backend {
    url: String,
    process: Process,
}

impl Fixture {
    /// Starts a fixture at a free port.
    ///
    /// # Errors
    /// Returns an error if the startup fails.
    pub async fn start(generation: Generation) -> Result<Self, TestError> {
        Self::start_at("127.0.0.1:0", generation).await
    }

    async fn start_at(address: &str, generation: Generation) -> Result<Self, TestError> {
        let name = match generation {
            Generation::Stateful => "stateful",
            Generation::Stateless => "stateless",
            Generation::Both => "both",
            Generation::Differing => "differing",
        };
        let mut command = Command::new(profile_dir()?.join("vmcp-fixture"));
        command.args(["--listen", address, "--generation", name, "--print-ready"]);
        let mut process = Process::start("vmcp-fixture", command, true)?;
        let (mut lines, input) = process.lines()?;
        let line = timeout(START, lines.next_line()).await??;
        let Some(url) = line.as_deref().and_then(|line| line.strip_prefix("ready ")) else {
            return Err(format!("the fixture did not come up:\n{}", process.log()).into());
        };
        Ok(Self { url: url.to_owned(), generation, process, _input: input })
    }

    /// Returns the URL of its MCP endpoint.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kills it and starts a new one without state at the same address.
    ///
    /// # Errors
    /// Returns an error if the startup of the new one fails.
    pub async fn restart(self) -> Result<Self, TestError> {
        let Self { url, generation, process, _input } = self;
        process.kill().await?;
        let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp"));
        Self::start_at(address.ok_or("the fixture has an odd URL")?, generation).await
    }

    /// Calls a tool directly, without a gateway, and returns its result.
    ///
    /// # Errors
    /// Returns an error if the call fails.
    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Value, TestError> {
        let mut params = json!({ "name": tool });
        params["arguments"] = arguments;
        let mut headers = HeaderMap::new();
        if self.generation == Generation::Stateful {
            let hello = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "vmcp-tests", "version": "1.0.0" },
            });
            let message =
                json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
            let reply = post(&self.url, &headers, &message).await?;
            let session =
                reply.headers.get("mcp-session-id").ok_or("the fixture opened no session")?;
            headers.insert("mcp-session-id", session.clone());
            headers.insert("mcp-protocol-version", HeaderValue::from_static("2025-11-25"));
            let message = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            post(&self.url, &headers, &message).await?;
        } else {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            headers.insert("mcp-protocol-version", HeaderValue::from_static("2026-07-28"));
            headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
            headers.insert("mcp-name", HeaderValue::from_str(tool)?);
        }
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let answer = post(&self.url, &headers, &message).await?.message()?;
        match &answer["result"] {
            Value::Null => Err(format!("{tool}: {answer}").into()),
            result => Ok(result.clone()),
        }
    }
}

impl Backend {
    /// Starts `server-everything` over streamable HTTP.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn everything_http() -> Result<Self, TestError> {
        everything("streamableHttp", "mcp").await
    }

    /// Starts `server-everything` over the deprecated HTTP+SSE transport.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn everything_sse() -> Result<Self, TestError> {
        everything("sse", "sse").await
    }

    /// Starts a FastMCP server over the deprecated HTTP+SSE transport, with the tools `count` and `ask`.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn asking_sse() -> Result<Self, TestError> {
        let python = python().await?;
        let port = free_port().await?;
        let mut command = Command::new(python.interpreter());
        command.arg(python.script("serve_sse.py")).arg(port.to_string());
        listening("serve_sse", command, port, "sse").await
    }

    /// Starts `mcp-server-time`, bridged from stdio.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn time() -> Result<Self, TestError> {
        let python = python().await?.interpreter();
        let python = python.to_str().ok_or("the path of Python is not text")?;
        bridge("http", &[python, "-m", "mcp_server_time", "--local-timezone", "UTC"]).await
    }

    /// Starts `server-memory`, bridged from stdio.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn memory() -> Result<Self, TestError> {
        let npm = npm().await?;
        let (node, server) =
            (npm.node24(), npm.module("@modelcontextprotocol/server-memory/dist/index.js"));
        let command = [node.to_str(), server.to_str()].map(|path| path.ok_or("a path is not text"));
        bridge("http", &[command[0]?, command[1]?]).await
    }

    /// Returns its endpoint.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns its process, for messages.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }
}

async fn everything(transport: &str, path: &str) -> Result<Backend, TestError> {
    let npm: Npm = npm().await?;
    let port = free_port().await?;
    let mut command = Command::new(npm.node24());
    command
        // By default the server listens on every interface.
        .arg("--import")
        .arg(npm.script("loopback.mjs"))
        .arg(npm.module("@modelcontextprotocol/server-everything/dist/index.js"))
        .arg(transport)
        .env("PORT", port.to_string());
    listening("server-everything", command, port, path).await
}

async fn bridge(transport: &str, server: &[&str]) -> Result<Backend, TestError> {
    let python = python().await?;
    let port = free_port().await?;
    let mut command = Command::new(python.interpreter());
    command.arg(python.script("bridge.py")).args([transport, &port.to_string()]).args(server);
    listening("bridge", command, port, "mcp").await
}

async fn listening(
    name: &str,
    command: Command,
    port: u16,
    path: &str,
) -> Result<Backend, TestError> {
    let mut process = Process::start(name, command, false)?;
    until_listening(port, &mut process, START).await?;
    Ok(Backend { url: format!("http://127.0.0.1:{port}/{path}"), process })
}
