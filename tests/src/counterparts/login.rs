//! Logins: an identity provider with login pages, and clients that act without a person.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::clients::script_command;
use super::{Client, Era, Person, Process, TestError, free_port, npm, until_listening};

/// Timeout of startup and client steps; interpreters start slowly on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// A running `oidc-provider` with login pages, defined in `login.mjs`.
#[derive(Debug)]
pub struct LoginProvider {
    port: u16,
    _process: Process,
}

/// A connected client with a logged-in user.
#[derive(Debug)]
pub struct LoggedIn {
    person: Person,
    lines: Lines<BufReader<ChildStdout>>,
    input: ChildStdin,
    process: Process,
    known: TokenState,
}

/// Token state of a client.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct TokenState {
    /// Scope of the last token, if the provider named it.
    pub scope: Option<String>,
    /// Number of authorization requests.
    pub authorizations: u32,
    /// Number of token responses.
    pub tokens: u32,
}

impl LoginProvider {
    /// Starts a provider at a free port.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn start() -> Result<Self, TestError> {
        Self::with_tokens(Duration::from_hours(1), Duration::ZERO).await
    }

    /// As [`LoginProvider::start`], with this token lifetime and a clock that runs `late`.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn with_tokens(lifetime: Duration, late: Duration) -> Result<Self, TestError> {
        let npm = npm().await?;
        let port = free_port().await?;
        let mut command = Command::new(npm.node24());
        command.arg(npm.script("login.mjs")).arg(port.to_string());
        command.arg(lifetime.as_secs().to_string()).arg(late.as_secs().to_string());
        let mut process = Process::start("login", command, false)?;
        until_listening(port, &mut process, WAIT_TIMEOUT).await?;
        Ok(Self { port, _process: process })
    }

    /// Returns its issuer.
    #[must_use]
    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl LoggedIn {
    /// Starts a client that knows only the URL, and completes the login as `person`. With `refreshes` it requests refresh
    /// tokens.
    ///
    /// # Errors
    /// Returns an error with the client's output if it is not supported, or does not connect.
    pub async fn start(
        client: Client,
        url: &str,
        era: Era,
        refreshes: bool,
        person: Person,
    ) -> Result<Self, TestError> {
        let script = match client {
            Client::PythonMcp => "login.py",
            Client::TypeScript1 => "login-v1.mjs",
            Client::TypeScript2 => "login-v2.mjs",
            Client::FastMcp | Client::Inspector => {
                return Err(format!("{client:?} has no script that logs in").into());
            }
        };
        let mut command = script_command(script).await?;
        command.args([url, era.name()]).args(refreshes.then_some("refreshes"));
        let mut process = Process::start(script, command, true)?;
        let (lines, input) = process.lines()?;
        let known = TokenState::default();
        let mut this = Self { person, lines, input, process, known };
        this.hear().await?;
        Ok(this)
    }

    /// Lists the names of all tools.
    ///
    /// # Errors
    /// Returns an error with the client's output if the list request fails.
    pub async fn tools(&mut self) -> Result<Vec<String>, TestError> {
        self.told(&json!({ "list": true })).await
    }

    /// Calls a tool and returns the text of its result.
    ///
    /// # Errors
    /// Returns an error with the client's output if the call fails.
    pub async fn call(&mut self, tool: &str) -> Result<String, TestError> {
        Ok(self.told(&json!({ "call": tool })).await?.concat())
    }

    /// Returns the token state.
    #[must_use]
    pub fn known(&self) -> &TokenState {
        &self.known
    }

    /// Returns the requested scopes, one text per authorization request.
    #[must_use]
    pub fn asked(&self) -> &[String] {
        self.person.asked()
    }

    async fn told(&mut self, what: &Value) -> Result<Vec<String>, TestError> {
        self.say(&what.to_string()).await?;
        let mut heard = self.hear().await?;
        Ok(serde_json::from_value(heard["seen"].take())?)
    }

    async fn say(&mut self, line: &str) -> Result<(), TestError> {
        Ok(self.input.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Returns the client's next line, after the person completed the requested login.
    async fn hear(&mut self) -> Result<Value, TestError> {
        loop {
            let line = timeout(WAIT_TIMEOUT, self.lines.next_line()).await;
            let line = line.map_err(|_| self.fault("says nothing"))??;
            let line = line.ok_or_else(|| self.fault("ended"))?;
            let heard: Value = serde_json::from_str(&line)?;
            if let Some(page) = heard["authorize"].as_str() {
                let back = self.person.logs_in(page).await?;
                self.say(&back).await?;
                continue;
            }
            self.known = TokenState::deserialize(&heard)?;
            return match heard["error"].as_str() {
                Some(error) => Err(self.fault(error)),
                None => Ok(heard),
            };
        }
    }

    fn fault(&self, what: &str) -> TestError {
        format!("{}: {what}\n{}", self.process, self.process.log()).into()
    }
}
