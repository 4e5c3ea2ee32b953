//! The Python SDK's client of the deprecated HTTP+SSE transport, driven by a script in `tests/tools`.

use serde::Deserialize;
use serde_json::Value;

use super::clients::{last_line, script_command};
use super::process::output;
use super::{Era, Fault};

/// A tool with its arguments.
#[derive(Debug, Clone)]
pub struct OldCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Its arguments, an object.
    pub arguments: Value,
}

/// What the client saw and heard.
#[derive(Debug, Clone, Deserialize)]
pub struct Heard {
    /// The revision.
    pub protocol: String,
    /// Names of tools.
    pub tools: Vec<String>,
    /// The progress of the first call, as it came.
    pub progress: Vec<f64>,
    /// The text that the first call answered.
    pub counted: String,
    /// The messages of the questions.
    pub asked: Vec<String>,
    /// The text that the second call answered.
    pub answer: String,
}

/// Connects over HTTP+SSE, lists, calls a tool that tells of its progress, then one that asks, and ends.
///
/// # Errors
/// When the client cannot be installed, or fails; the message has what it said.
pub async fn old_client(
    url: &str,
    era: Era,
    counting: &OldCall<'_>,
    asking: &OldCall<'_>,
) -> Result<Heard, Fault> {
    let mut command = script_command("drive_sse.py").await?;
    command.args([url, era.name()]);
    for OldCall { tool, arguments } in [counting, asking] {
        command.args([*tool, &arguments.to_string()]);
    }
    last_line(&output(&format!("the old client in era {}", era.name()), command).await?)
}
