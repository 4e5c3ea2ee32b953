//! Memory that records hold, estimated.

use std::sync::Arc;

use super::{
    IterationRecord, IterationResult, RoundRecord, RunRecord, RunResult, StepRecord, StepResult,
};
use crate::{Change, limits};

/// Memory of an empty record, estimated.
const BASE_SIZE: usize = 512;
/// Memory of an entry of a record without its texts, estimated.
pub(crate) const ENTRY_SIZE: usize = 128;

impl RunRecord {
    /// Returns an estimate of the memory that the record holds, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        BASE_SIZE
            + limits::memory(&self.arguments)
            + self.steps.values().map(StepRecord::size).sum::<usize>()
            + self.rounds.iter().map(RoundRecord::size).sum::<usize>()
            + self.result.as_ref().map_or(0, RunResult::size)
    }

    /// Returns the memory that a change frees: that of the iterations of a step that ends, of an output that nothing
    /// reads, and of answers that become results.
    pub(crate) fn size_freed_by(&self, change: &Change) -> usize {
        let step = |step| self.steps.get(step);
        match change {
            Change::StepFinished { step: number, .. } => {
                step(number).map_or(0, StepRecord::size_of_iterations)
            }
            Change::OutputDropped { step: number } => {
                step(number).and_then(|step| step.result.as_ref()).map_or(0, StepResult::size)
            }
            Change::RoundConsumed { round, .. } => {
                self.rounds.get(*round).map_or(0, RoundRecord::size_of_answers)
            }
            _ => 0,
        }
    }
}

impl StepRecord {
    fn size(&self) -> usize {
        ENTRY_SIZE
            + self.question.as_ref().map_or(0, |message| message.len())
            + self.size_of_iterations()
            + self.result.as_ref().map_or(0, StepResult::size)
    }

    fn size_of_iterations(&self) -> usize {
        let result = |it: &IterationRecord| it.result.as_ref().map_or(0, IterationResult::size);
        self.iterations.values().map(|iteration| ENTRY_SIZE + result(iteration)).sum()
    }
}

impl IterationResult {
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Completed(output) => limits::memory(output),
            Self::Failed(error) => error.len(),
        }
    }
}

impl StepResult {
    pub(crate) fn size(&self) -> usize {
        // The content of a result without structured content is its output.
        let is_shared = Arc::ptr_eq(&self.output, &self.content);
        limits::memory(&self.output)
            + if is_shared { 0 } else { limits::memory(&self.content) }
            + self.error.as_ref().map_or(0, |error| error.len())
    }
}

impl RunResult {
    /// Returns an estimate of the memory that the result holds, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Completed(output) => limits::memory(output),
            Self::Failed(_) => ENTRY_SIZE,
            Self::NotKept => 0,
        }
    }
}
