//! The Python SDK's client of the deprecated HTTP+SSE transport, driven by a script in `tests/tools`.

use serde::Deserialize;
use serde_json::Value;

use super::clients::{last_line, script_command};
use super::process::output;
use super::{Era, TestError};

/// A tool call.
#[derive(Debug, Clone)]
pub struct OldCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Its arguments, an object.
    pub arguments: Value,
}

/// Results of the client.
#[derive(Debug, Clone, Deserialize)]
pub struct Heard {
    /// Revision.
    pub protocol: String,
    /// Tool names.
    pub tools: Vec<String>,
    /// Progress of the first call, in order.
    pub progress: Vec<f64>,
    /// Text of the first call's result.
    pub counted: String,
    /// Messages of the server requests.
    pub asked: Vec<String>,
    /// Text of the second call's result.
    pub answer: String,
}

/// Connects over HTTP+SSE, lists, calls a tool with progress, then one that sends a server request, and exits.
///
/// # Errors
/// Returns an error with the client's output if it cannot be installed, or fails.
pub async fn old_client(
    url: &str,
    era: Era,
    counting: &OldCall<'_>,
    asking: &OldCall<'_>,
) -> Result<Heard, TestError> {
    let mut command = script_command("drive_sse.py").await?;
    command.args([url, era.name()]);
    for OldCall { tool, arguments } in [counting, asking] {
        command.args([*tool, &arguments.to_string()]);
    }
    last_line(&output(&format!("the old client in era {}", era.name()), command).await?)
}
