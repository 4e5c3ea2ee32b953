//! Records and results of steps.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Timestamp;

/// Record of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Start of the step; `None` if it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// End of the step, also of one that was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Number of attempts that started. The last one may have no result.
    pub attempts: u32,
    /// `true` while the last attempt has no result.
    pub is_in_flight: bool,
    /// Message of the question that is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Arc<str>>,
    /// Iterations of a `forEach` step that started.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub iterations: BTreeMap<usize, IterationRecord>,
    /// Result of a step that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<StepResult>,
}

/// Record of one iteration of a `forEach` step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IterationRecord {
    /// Number of attempts that started.
    pub attempts: u32,
    /// `true` while the last attempt has no result.
    pub is_in_flight: bool,
    /// Result of an iteration that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<IterationResult>,
}

/// Result of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// Status.
    pub status: StepStatus,
    /// `.steps.ID.output`
    pub output: Arc<Value>,
    /// `.steps.ID.content`
    pub content: Arc<Value>,
    /// `.steps.ID.error`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
}

/// Status of a step that ended, as `.steps.ID.status` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// The step succeeded.
    Completed,
    /// The step failed.
    Failed,
    /// The condition was false, or the user skipped the remaining steps.
    Skipped,
    /// The run ended before the step did.
    Cancelled,
}

/// Result of one iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IterationResult {
    /// The call succeeded with this output.
    Completed(Arc<Value>),
    /// The call failed.
    Failed(Arc<str>),
}

/// Returns the null that all results without output or content share.
pub(crate) fn null() -> Arc<Value> {
    static NULL: LazyLock<Arc<Value>> = LazyLock::new(Arc::default);
    NULL.clone()
}

// === impl StepResult ===

impl StepResult {
    /// Drops the output, which nothing reads any more.
    pub(crate) fn drop_output(&mut self) {
        self.output = null();
        self.content = null();
    }
}

// === impl StepStatus ===

impl StepStatus {
    /// Returns the word of `.steps.ID.status`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}
