//! Record of a run.

mod apply;
mod round;
mod size;
mod step;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::round::{KeptAnswer, RecordedQuestion, RoundRecord};
pub use self::step::{IterationRecord, IterationResult, StepRecord, StepResult, StepStatus};
pub use self::write::WriteEffect;
pub(crate) use self::{size::ENTRY_SIZE, step::null};
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
    /// End of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
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

/// Result of a run that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// The output.
    Completed(Arc<Value>),
    /// The error.
    Failed(RunError),
    /// The run succeeded, and its output was not kept.
    NotKept,
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
    /// End of the run.
    pub ended_at: Option<Timestamp>,
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
            ended_at: None,
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

/// The form of RFC 3339, in UTC.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = i64::try_from(self.0).unwrap_or(i64::MAX);
        jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX).fmt(f)
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
