//! Calls of tools by steps.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::RunId;

/// Call of a tool by a step. The request of the tower service that a run uses.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The tool, as the step names it: `workload.tool_name`.
    pub tool: Arc<str>,
    /// The arguments, with templates replaced and converted to the types of the tool's input schema.
    pub arguments: Map<String, Value>,
    /// Position of the call in its run.
    pub step: StepIdentity,
}

/// Position of a call in its run, for authorization, audit, traces and idempotency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepIdentity {
    /// The run.
    pub run: RunId,
    /// Name of the composite tool.
    pub workflow: Arc<str>,
    /// Identifier of the step.
    pub step: Arc<str>,
    /// Number of the iteration, counted from 0. `None` outside `forEach`.
    pub iteration: Option<usize>,
    /// Number of the attempt, counted from 1.
    pub attempt: u32,
}

/// Result of a called tool (MCP `CallToolResult`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutcome {
    /// Content items.
    pub content: Vec<Value>,
    /// `structuredContent`.
    pub structured_content: Option<Value>,
    /// `isError`: the tool ran and reports a failure.
    pub is_error: bool,
}

/// Error of a call that has no result.
#[derive(Clone)]
pub struct CallError {
    kind: CallErrorKind,
    message: String,
    retry_after: Option<Duration>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// Kind of a [`CallError`]. Decides whether a retry may repeat the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallErrorKind {
    /// The connection to the backend failed.
    Transport,
    /// The backend did not respond in time.
    Timeout,
    /// The backend asked for fewer requests (429).
    TooManyRequests,
    /// The backend failed (5xx, JSON-RPC internal error).
    ServerError,
    /// The circuit of the backend is open.
    CircuitOpen,
    /// The caller may not use the tool.
    Denied,
    /// No backend has the tool.
    UnknownTool,
    /// The backend rejected the arguments.
    InvalidArguments,
    /// The tool needs input of the user that the run cannot ask for.
    InputRequired,
    /// The call was cancelled.
    Cancelled,
}

// === impl StepIdentity ===

impl StepIdentity {
    /// Returns the key that is the same for each attempt of this call, also after a restart, and different for any other
    /// call. A backend that honors it performs the call once.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        match self.iteration {
            None => [self.run.as_str(), "/", &self.step].concat(),
            Some(iteration) => format!("{}/{}/{iteration}", self.run, self.step),
        }
    }
}

// === impl ToolOutcome ===

impl ToolOutcome {
    /// Creates the result of a tool that succeeded with structured content.
    #[must_use]
    pub fn structured(value: Value) -> Self {
        Self { content: Vec::new(), structured_content: Some(value), is_error: false }
    }

    /// Creates the result of a tool that succeeded with one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![text_content(text.into())], ..Self::default() }
    }

    /// Creates the result of a tool that reports a failure.
    #[must_use]
    pub fn failure(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}

fn text_content(text: String) -> Value {
    let mut content = Map::new();
    content.insert("type".to_owned(), "text".into());
    content.insert("text".to_owned(), text.into());
    Value::Object(content)
}

// === impl CallError ===

impl CallError {
    /// Creates an error. `message` is shown to clients.
    #[must_use]
    pub fn new(kind: CallErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, source: None }
    }

    /// Adds the time after which the backend accepts requests again (RFC 9110 section 10.2.3).
    #[must_use]
    pub fn with_retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// Adds the cause, such as the rejection that the caller of the composite tool gets for a denied step.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> CallErrorKind {
        self.kind
    }

    /// Returns the time after which the backend accepts requests again.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    pub(crate) fn into_source(self) -> Option<Arc<dyn Error + Send + Sync>> {
        self.source
    }
}

impl CallErrorKind {
    /// Returns `true` if another attempt may succeed. A denial, an unknown tool, invalid arguments, missing input and a
    /// cancellation are final.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        match self {
            Self::Transport
            | Self::Timeout
            | Self::TooManyRequests
            | Self::ServerError
            | Self::CircuitOpen => true,
            Self::Denied
            | Self::UnknownTool
            | Self::InvalidArguments
            | Self::InputRequired
            | Self::Cancelled => false,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallError")
            .field("kind", &self.kind)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

impl Error for CallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
