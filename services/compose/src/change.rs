//! Changes of a run's record.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::record::ENTRY_SIZE;
use crate::{
    IterationResult, KeptAnswer, RecordedQuestion, RunError, RunErrorKind, RunResult, RunStatus,
    StepResult, Timestamp,
};

/// Change of a [`RunRecord`](crate::RunRecord). The changes of one write are applied together or not at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum Change {
    /// A step, or an attempt of its call, starts. Written before anything is sent.
    StepStarted {
        /// Number of the step.
        step: usize,
        /// Point in time.
        at: Timestamp,
        /// Message of its question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Arc<str>>,
    },
    /// An attempt failed and another one follows.
    AttemptFailed {
        /// Number of the step.
        step: usize,
        /// Number of the iteration.
        iteration: Option<usize>,
    },
    /// An iteration, or an attempt of its call, starts. Written before anything is sent.
    IterationStarted {
        /// Number of the step.
        step: usize,
        /// Number of the iteration.
        iteration: usize,
    },
    /// An iteration ended.
    IterationFinished {
        /// Number of the step.
        step: usize,
        /// Number of the iteration.
        iteration: usize,
        /// Its result.
        result: IterationResult,
    },
    /// A step ended or was skipped.
    StepFinished {
        /// Number of the step.
        step: usize,
        /// Point in time.
        at: Timestamp,
        /// Its result.
        result: StepResult,
    },
    /// No step that is not done reads the output of a step that is done, nor does the output of the run.
    OutputDropped {
        /// Number of the step that is done.
        step: usize,
    },
    /// A user's answer skips the steps that have not started.
    RemainingSkipped,
    /// The run is suspended until the user answers. Gives the lease back.
    RoundOpened {
        /// The questions.
        questions: Vec<RecordedQuestion>,
    },
    /// Answers to questions of the last round are kept until the run continues. The store refuses the write if the round is
    /// not open.
    AnswersKept {
        /// Number of the round.
        round: usize,
        /// The answers.
        answers: Vec<KeptAnswer>,
    },
    /// Answers consume the last round. The store refuses the write if the round is not open.
    RoundConsumed {
        /// Number of the round.
        round: usize,
        /// Digest of the answers.
        digest: [u8; 32],
    },
    /// The run ended. Gives the lease back. Ends the steps that have no result.
    RunFinished {
        /// Status.
        status: RunStatus,
        /// Point in time.
        at: Timestamp,
        /// Result.
        result: RunResult,
    },
}

// === impl Change ===

impl Change {
    /// Returns the change that ends a cancelled run, for [`WorkflowStore::cancel`](crate::WorkflowStore::cancel).
    #[must_use]
    pub fn cancelled(at: Timestamp) -> Self {
        let error = RunError::new(RunErrorKind::Cancelled, "the run was cancelled by its owner");
        Self::RunFinished { status: RunStatus::Cancelled, at, result: RunResult::Failed(error) }
    }

    /// Returns an estimate of the memory that the change adds, in bytes.
    pub(crate) fn size(&self) -> usize {
        ENTRY_SIZE
            + match self {
                Self::StepStarted { question, .. } => {
                    question.as_ref().map_or(0, |message| message.len())
                }
                Self::IterationFinished { result, .. } => result.size(),
                Self::StepFinished { result, .. } => result.size(),
                Self::RoundOpened { questions } => {
                    questions.iter().map(|question| question.message.len() + ENTRY_SIZE).sum()
                }
                Self::AnswersKept { answers, .. } => {
                    answers.iter().map(|kept| kept.answer.size()).sum()
                }
                Self::RunFinished { result, .. } => result.size(),
                Self::AttemptFailed { .. }
                | Self::IterationStarted { .. }
                | Self::OutputDropped { .. }
                | Self::RemainingSkipped
                | Self::RoundConsumed { .. } => 0,
            }
    }
}
