//! Errors of runs.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Error that ended a run, or that prevented one.
///
/// The source of a live error is the [`CallError`](crate::CallError)'s own; an error that was read from a store has none.
#[derive(Clone, Serialize, Deserialize)]
pub struct RunError {
    kind: RunErrorKind,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<Arc<str>>,
    #[serde(skip)]
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// Kind of a [`RunError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunErrorKind {
    /// The client's arguments do not fit `parameters` (JSON-RPC -32602).
    InvalidArguments,
    /// An answer does not fit the schema of its question. The question is still open (JSON-RPC -32602).
    InvalidAnswer,
    /// `requestState` names no open or answered round of a run of this owner (JSON-RPC -32602).
    UnknownRound,
    /// The round was consumed by other answers (JSON-RPC -32602).
    RoundConflict,
    /// The caller may not use the tool of a step.
    Denied,
    /// A step failed.
    StepFailed,
    /// The user declined or cancelled a question, and the step aborts then.
    Declined,
    /// The workflow took longer than its timeout.
    TimedOut,
    /// The output could not be made of the results.
    OutputFailed,
    /// A call was in progress when its client left or its process ended, and its tool may not be called twice.
    OutcomeUnknown,
    /// The definition of the workflow is another one than at the start of the run.
    DefinitionChanged,
    /// The owner or the gateway cancelled the run.
    Cancelled,
    /// Another process continues the run.
    Superseded,
    /// The store cannot hold more.
    StoreFull,
    /// The store failed.
    Store,
}

// === impl RunError ===

impl RunError {
    pub(crate) fn new(kind: RunErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), step: None, source: None }
    }

    pub(crate) fn at_step(mut self, step: &Arc<str>) -> Self {
        self.step = Some(step.clone());
        self
    }

    pub(crate) fn with_source(mut self, source: Option<Arc<dyn Error + Send + Sync>>) -> Self {
        self.source = source;
        self
    }

    pub(crate) fn into_source(self) -> Option<Arc<dyn Error + Send + Sync>> {
        self.source
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> RunErrorKind {
        self.kind
    }

    /// Returns the identifier of the step that failed.
    #[must_use]
    pub fn step(&self) -> Option<&str> {
        self.step.as_deref()
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunError")
            .field("kind", &self.kind)
            .field("step", &self.step)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

impl PartialEq for RunError {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.step == other.step && self.message == other.message
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
