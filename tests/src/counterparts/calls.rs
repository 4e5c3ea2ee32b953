//! Calls of tools in order through the SDKs, with answers to the questions of the tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::clients::{last_line, script_command};
use super::process::output;
use super::{Client, Era, TestError};

/// Calls of one connected client.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CallPlan {
    /// The calls, in order.
    pub calls: Vec<PlannedCall>,
    /// Bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// One call of [`CallPlan`].
#[derive(Debug, Clone, Serialize)]
pub struct PlannedCall {
    /// Name of the tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Results of `elicitation/create` by the first line of the question's message, in turn.
    pub answers: BTreeMap<String, Vec<Value>>,
    /// True if the client program answers the rounds of MCP 2026-07-28 itself, and again after a refused answer. By default,
    /// the SDK answers them, and the call fails after a refused answer.
    pub manual: bool,
}

/// Results of [`CallPlan`].
#[derive(Debug, Clone, Deserialize)]
pub struct CallsReport {
    /// Names of the listed tools.
    pub tools: Vec<String>,
    /// Results in the order of the calls.
    pub results: Vec<CallResult>,
}

/// Result of one call.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct CallResult {
    /// Messages of the questions, as received.
    pub asked: Vec<String>,
    /// Messages of the errors for refused answers.
    pub refused: Vec<String>,
    /// Text of the content.
    pub text: String,
    /// Structured content.
    pub structured: Value,
    /// True if the tool failed.
    pub failed: bool,
    /// Message of the JSON-RPC error.
    pub error: Option<String>,
}

impl PlannedCall {
    /// Creates a call without answers. `arguments` is an object.
    #[must_use]
    pub fn new(tool: &str, arguments: Value) -> Self {
        let arguments = if let Value::Object(members) = arguments { members } else { Map::new() };
        Self { tool: tool.to_owned(), arguments, answers: BTreeMap::new(), manual: false }
    }

    /// Adds the answer to the next question with this message.
    #[must_use]
    pub fn answer(mut self, message: &str, result: Value) -> Self {
        self.answers.entry(message.to_owned()).or_default().push(result);
        self
    }
}

impl Client {
    /// Connects, lists the tools, calls them in order, and exits.
    ///
    /// # Errors
    /// Returns an error with the client's output if it has no such script, cannot be installed, or fails.
    pub async fn call(
        self,
        url: &str,
        era: Era,
        plan: &CallPlan,
    ) -> Result<CallsReport, TestError> {
        let script = match self {
            Self::PythonMcp => "calls.py",
            Self::TypeScript1 => "calls-v1.mjs",
            Self::TypeScript2 => "calls-v2.mjs",
            Self::FastMcp | Self::Inspector => {
                return Err(format!("{self:?} has no script of calls").into());
            }
        };
        let mut command = script_command(script).await?;
        command.args([url, era.name(), &serde_json::to_string(plan)?]);
        last_line(&output(&format!("{self:?} in era {}", era.name()), command).await?)
    }
}
