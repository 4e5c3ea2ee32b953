//! Record of a run.

mod apply;
mod round;
mod size;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::round::{KeptAnswer, RecordedQuestion, RoundRecord};
pub(crate) use self::size::ENTRY_SIZE;
use crate::{DefinitionHash, RunError, RunId, RunOwner};

/// Record of a run in a [`WorkflowStore`](crate::WorkflowStore). Steps are numbered in the order of the definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Identifier of the run.
    pub id: RunId,
    /// Owner of the run.
    pub owner: RunOwner,
    /// Name of the composite tool.
    pub workflow: Arc<str>,
    /// Definition with which the run began.
    pub definition: DefinitionHash,
    /// Arguments of the client, with defaults.
    pub arguments: Arc<Value>,
    /// Start of the run.
    pub started_at: Timestamp,
    /// Last write to the record.
    #[serde(default)]
    pub updated_at: Timestamp,
    /// `true` if the result is kept after the end of the run, for a client that asks for it later.
    pub keeps_result: bool,
    /// Status.
    pub status: RunStatus,
    /// Steps that started or were skipped.
    pub steps: BTreeMap<usize, StepRecord>,
    /// `true` after a user's answer that skips the remaining steps.
    pub skips_remaining: bool,
    /// Rounds of questions to a client without a session, numbered from 0.
    pub rounds: Vec<RoundRecord>,
    /// Result of a run that ended.
    pub result: Option<RunResult>,
    /// Number of writes.
    pub version: u64,
}

/// Point in time: milliseconds since 1970.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// Status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// A process runs it.
    Running,
    /// The run is suspended until the user answers.
    InputRequired,
    /// The process that ran it ended or lost its lease; the run can be resumed.
    Interrupted,
    /// The run succeeded.
    Completed,
    /// The run failed.
    Failed,
    /// The run took longer than the workflow's timeout.
    TimedOut,
    /// The owner cancelled the run.
    Cancelled,
}

/// Record of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Start of the step; `None` if it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
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

/// Result of a run that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// The output.
    Completed(Arc<Value>),
    /// The error.
    Failed(RunError),
}

/// Run in a list of an owner's runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// Identifier.
    pub id: RunId,
    /// Name of the composite tool.
    pub workflow: Arc<str>,
    /// Status.
    pub status: RunStatus,
    /// Start of the run.
    pub started_at: Timestamp,
}

// === impl RunRecord ===

impl RunRecord {
    /// Creates the record of a run that starts.
    #[must_use]
    pub fn new(
        id: RunId,
        owner: RunOwner,
        workflow: Arc<str>,
        definition: DefinitionHash,
        arguments: Map<String, Value>,
        started_at: Timestamp,
    ) -> Self {
        Self {
            id,
            owner,
            workflow,
            definition,
            arguments: Arc::new(Value::Object(arguments)),
            started_at,
            updated_at: started_at,
            keeps_result: false,
            status: RunStatus::Running,
            steps: BTreeMap::new(),
            skips_remaining: false,
            rounds: Vec::new(),
            result: None,
            version: 0,
        }
    }

    /// Keeps the result after the end of the run.
    #[must_use]
    pub fn keeping_result(mut self) -> Self {
        self.keeps_result = true;
        self
    }

    /// Returns the round that is open, if the run waits for one.
    #[must_use]
    pub fn open_round(&self) -> Option<usize> {
        let last = self.rounds.len().checked_sub(1)?;
        self.rounds[last].consumed_by.is_none().then_some(last)
    }

    /// Returns `true` if the run ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.result.is_some()
    }
}

// === impl StepResult ===

impl StepResult {
    /// Drops the output, which nothing reads any more.
    pub(crate) fn drop_output(&mut self) {
        self.output = Arc::new(Value::Null);
        self.content = self.output.clone();
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

// === impl Timestamp ===

impl Timestamp {
    /// Returns the point in time `duration` later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        SystemTime::UNIX_EPOCH + Duration::from_millis(time.0)
    }
}
