//! Real MCP clients, driven by the scripts in `tests/tools`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::{BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::process::output;
use super::{Npm, Process, TestError, npm, python, scratch_dir};

/// Timeout to connect and subscribe; interpreters start slowly on a busy machine.
const START: Duration = Duration::from_secs(30);

/// A client of another project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// The Python SDK.
    PythonMcp,
    /// FastMCP.
    FastMcp,
    /// Version 1 of the TypeScript SDK.
    TypeScript1,
    /// Version 2 of the TypeScript SDK.
    TypeScript2,
    /// The Inspector's command line.
    Inspector,
}

/// Selection of the protocol generation by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// With a session, whatever the server supports.
    Legacy,
    /// Without a session, whatever the server supports.
    Modern,
    /// The client negotiates with the server.
    Auto,
}

/// Requests of a client after the lists.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Tool to call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Resource to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Prompt to get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Its arguments.
    pub prompt_arguments: BTreeMap<String, String>,
}

/// Results of a client run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ClientReport {
    /// The revision, if the client reports it.
    pub protocol: Option<String>,
    /// Tool names.
    pub tools: Vec<String>,
    /// Resource URIs.
    pub resources: Vec<String>,
    /// Prompt names.
    pub prompts: Vec<String>,
    /// Text of the tool's result.
    pub call: Option<String>,
    /// True if the tool failed.
    pub failed: bool,
    /// Text of the resource.
    pub resource: Option<String>,
    /// Text of the prompt.
    pub prompt: Option<String>,
}

/// A connected client that receives change notifications.
#[derive(Debug)]
pub struct Watcher {
    lines: Lines<BufReader<ChildStdout>>,
    process: Process,
    // The scripts exit when their input closes.
    _input: ChildStdin,
}

/// A change that a client was notified of.
#[derive(Debug, Clone, Deserialize)]
pub struct Change {
    /// The notification, without `notifications/`; or `ready`, `error`, `ended`.
    pub event: String,
    /// Time in milliseconds since the epoch.
    pub at: f64,
    /// URI of the resource.
    #[serde(default)]
    pub uri: Option<String>,
}

/// Server requests that a client received, and results of its calls.
#[derive(Debug, Clone, Deserialize)]
pub struct ServerRequestReport {
    /// Messages of the server requests, as received.
    pub asked: Vec<String>,
    /// Messages and results of the calls.
    pub answers: Vec<CallReport>,
}

/// One call of [`ServerRequestReport`].
#[derive(Debug, Clone, Deserialize)]
pub struct CallReport {
    /// Message of the server request that the call triggers.
    pub message: String,
    /// Text of the result.
    pub answer: String,
}

impl Client {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::PythonMcp, Self::FastMcp, Self::TypeScript1, Self::TypeScript2, Self::Inspector];

    /// Returns the eras that the client supports.
    #[must_use]
    pub fn eras(self) -> &'static [Era] {
        match self {
            Self::TypeScript1 => &[Era::Legacy],
            _ => &[Era::Legacy, Era::Modern, Era::Auto],
        }
    }

    /// Connects, lists, performs the plan, and exits.
    ///
    /// # Errors
    /// Returns an error with the client's output if it cannot be installed, or fails.
    pub async fn run(self, url: &str, era: Era, plan: &Plan) -> Result<ClientReport, TestError> {
        let script = match self {
            Self::PythonMcp => "drive.py",
            Self::FastMcp => "drive_fastmcp.py",
            Self::TypeScript1 => "drive-v1.mjs",
            Self::TypeScript2 => "drive-v2.mjs",
            Self::Inspector => return inspect(url, era, plan).await,
        };
        let mut command = script_command(script).await?;
        command.args([url, era.name(), &serde_json::to_string(plan)?]);
        last_line(&output(&format!("{self:?} in era {}", era.name()), command).await?)
    }
}

impl Era {
    /// Returns its name in the scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
            Self::Auto => "auto",
        }
    }
}

impl Watcher {
    /// Connects a client, subscribes it to every list change and to the resource, and waits for the subscription.
    ///
    /// # Errors
    /// Returns an error if the client has no such script, or fails.
    pub async fn start(
        client: Client,
        url: &str,
        era: Era,
        resource: &str,
    ) -> Result<Self, TestError> {
        let script = match client {
            Client::PythonMcp => "watch.py",
            Client::TypeScript1 => "watch-v1.mjs",
            Client::TypeScript2 => "watch-v2.mjs",
            Client::FastMcp | Client::Inspector => {
                return Err(format!("{client:?} cannot watch").into());
            }
        };
        let mut command = script_command(script).await?;
        command.args([url, era.name(), resource]);
        let mut process = Process::start(script, command, true)?;
        let (lines, input) = process.lines()?;
        let mut watcher = Self { lines, process, _input: input };
        watcher.next("ready", START).await?;
        Ok(watcher)
    }

    /// Returns the next change of this kind and skips others.
    ///
    /// # Errors
    /// Returns an error on a timeout, or if the client exits.
    pub async fn next(&mut self, event: &str, within: Duration) -> Result<Change, TestError> {
        let wait = async {
            while let Some(line) = self.lines.next_line().await? {
                let change: Change = serde_json::from_str(&line)?;
                if change.event == event {
                    return Ok(change);
                }
            }
            Err(format!("{} ended", self.process).into())
        };
        let heard = timeout(within, wait)
            .await
            .unwrap_or_else(|_| Err(format!("no {event} within {within:?}").into()));
        heard.map_err(|fault: TestError| {
            format!("{}: {fault}\n{}", self.process, self.process.log()).into()
        })
    }
}

/// Calls a tool that sends a server request, `calls` times concurrently, and responds to each after a delay.
///
/// # Errors
/// Returns an error if the client cannot be installed, or fails.
pub async fn ask(
    url: &str,
    era: Era,
    tool: &str,
    name: &str,
    calls: usize,
    delay: Duration,
) -> Result<ServerRequestReport, TestError> {
    let mut command = script_command("ask.py").await?;
    command.args([url, era.name(), tool, name, &calls.to_string(), &delay.as_millis().to_string()]);
    last_line(&output(&format!("the answering client {name}"), command).await?)
}

/// Returns the command that runs a script, by its extension.
pub(super) async fn script_command(script: &str) -> Result<Command, TestError> {
    let (interpreter, path) =
        if PathBuf::from(script).extension().is_some_and(|extension| extension == "py") {
            let python = python().await?;
            (python.interpreter(), python.script(script))
        } else {
            let npm = npm().await?;
            (npm.node24(), npm.script(script))
        };
    let mut command = Command::new(interpreter);
    command.arg(path).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

pub(super) fn last_line<T: for<'de> Deserialize<'de>>(said: &str) -> Result<T, TestError> {
    let line = said.lines().last().ok_or("the client said nothing")?;
    serde_json::from_str(line).map_err(|error| format!("{error} in {line}").into())
}

async fn inspect(url: &str, era: Era, plan: &Plan) -> Result<ClientReport, TestError> {
    let npm = npm().await?;
    let inspector = Inspector { npm, url, era };
    let names = |listed: &Value, member: &str, key: &str| -> Vec<String> {
        let items = listed[member].as_array().into_iter().flatten();
        items.filter_map(|item| item[key].as_str()).map(str::to_owned).collect()
    };
    let mut seen = ClientReport {
        tools: names(&inspector.ask(&["tools/list"]).await?, "tools", "name"),
        ..ClientReport::default()
    };
    if let Some(uri) = &plan.resource {
        seen.resources = names(&inspector.ask(&["resources/list"]).await?, "resources", "uri");
        let read = inspector.ask(&["resources/read", "--uri", uri]).await?;
        seen.resource = Some(names(&read, "contents", "text").concat());
    }
    if let Some(prompt) = &plan.prompt {
        seen.prompts = names(&inspector.ask(&["prompts/list"]).await?, "prompts", "name");
        let pairs: Vec<String> =
            plan.prompt_arguments.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut arguments = vec!["prompts/get", "--prompt-name", prompt];
        arguments.extend(pairs.iter().flat_map(|pair| ["--prompt-args", pair]));
        let got = inspector.ask(&arguments).await?;
        let messages = got["messages"].as_array().into_iter().flatten();
        seen.prompt =
            Some(messages.filter_map(|message| message["content"]["text"].as_str()).collect());
    }
    if let Some(tool) = &plan.tool {
        let pairs: Vec<String> =
            plan.arguments.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut arguments = vec!["tools/call", "--tool-name", tool];
        arguments.extend(pairs.iter().flat_map(|pair| ["--tool-arg", pair]));
        let called = inspector.ask(&arguments).await?;
        seen.call = Some(names(&called, "content", "text").concat());
        seen.failed = called["isError"] == true;
    }
    Ok(seen)
}

/// Invocation of the Inspector for one request.
struct Inspector<'a> {
    npm: Npm,
    url: &'a str,
    era: Era,
}

impl Inspector<'_> {
    async fn ask(&self, arguments: &[&str]) -> Result<Value, TestError> {
        let home = scratch_dir()?.join("inspector-home");
        fs::create_dir_all(&home)?;
        let mut command = Command::new(self.npm.node24());
        command
            .arg(self.npm.module("@modelcontextprotocol/inspector/clients/launcher/build/index.js"))
            .args([
                "--cli",
                self.url,
                "--transport",
                "http",
                "--protocol-era",
                self.era.name(),
                "--method",
            ])
            .args(arguments)
            .env("HOME", home);
        let said =
            output(&format!("the Inspector in era {}: {arguments:?}", self.era.name()), command)
                .await?;
        serde_json::from_str(&said).map_err(|error| format!("{error} in {said}").into())
    }
}
