//! Clients of the SDKs that call tools until a stop signal.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::io::{BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::clients::script_command;
use super::{Client, Era, Process, TestError};

/// Timeout of the connections of all clients, and of their last calls.
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// Running clients of one SDK, in one process.
#[derive(Debug)]
pub struct ClientLoad {
    lines: Lines<BufReader<ChildStdout>>,
    process: Process,
    input: ChildStdin,
}

impl ClientLoad {
    /// Connects this many clients.
    ///
    /// # Errors
    /// Returns an error with the output of the clients if they have no such script, cannot be installed, or fail.
    pub async fn start(
        client: Client,
        url: &str,
        era: Era,
        count: usize,
    ) -> Result<Self, TestError> {
        let script = match client {
            Client::PythonMcp => "load.py",
            Client::TypeScript1 => "load-v1.mjs",
            Client::TypeScript2 => "load-v2.mjs",
            Client::FastMcp | Client::Inspector => {
                return Err(format!("{client:?} has no script of loads").into());
            }
        };
        let mut command = script_command(script).await?;
        command.args([url, era.name(), &count.to_string()]);
        let mut process = Process::start(script, command, true)?;
        let (mut lines, input) = process.lines()?;
        let ready: String = line(&mut lines, &process).await?;
        if ready != "ready" {
            return Err(format!("{process} is not ready: {ready}").into());
        }
        Ok(Self { lines, process, input })
    }

    /// Lets the clients finish their calls, and returns what they print.
    ///
    /// # Errors
    /// Returns an error with the output of the clients if they fail.
    pub async fn stop<T: DeserializeOwned>(self) -> Result<T, TestError> {
        let Self { mut lines, process, input } = self;
        drop(input);
        line(&mut lines, &process).await
    }
}

async fn line<T: DeserializeOwned>(
    lines: &mut Lines<BufReader<ChildStdout>>,
    process: &Process,
) -> Result<T, TestError> {
    let line = timeout(WAIT_TIMEOUT, lines.next_line()).await;
    match line {
        Ok(Ok(Some(line))) => Ok(serde_json::from_str(&line)?),
        Ok(Ok(None)) => Err(format!("{process} ended:\n{}", process.log()).into()),
        Ok(Err(error)) => Err(format!("{process}: {error}\n{}", process.log()).into()),
        Err(_) => Err(format!("{process} prints nothing:\n{}", process.log()).into()),
    }
}
