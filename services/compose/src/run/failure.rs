//! Failures of steps.

use std::sync::Arc;

use crate::{RunError, RunErrorKind, StoreError};

/// Failure of a step.
#[derive(Debug)]
pub(super) enum StepFailure {
    /// The step failed; `onError: continue` goes on.
    Step(RunError),
    /// The run ends, whatever `onError` says.
    Run(RunError),
}

impl StepFailure {
    /// Creates the failure of a step.
    pub(super) fn step(step: &Arc<str>, message: impl std::fmt::Display) -> Self {
        let message = format!("step \"{step}\": {message}");
        Self::Step(RunError::new(RunErrorKind::StepFailed, message).at_step(step))
    }

    /// Creates a failure that ends the run.
    pub(super) fn run(
        kind: RunErrorKind,
        step: &Arc<str>,
        message: impl std::fmt::Display,
    ) -> Self {
        Self::Run(RunError::new(kind, format!("step \"{step}\": {message}")).at_step(step))
    }
}

impl From<StoreError> for StepFailure {
    fn from(error: StoreError) -> Self {
        Self::Run(store_error(error))
    }
}

/// Converts an error of the store.
pub(super) fn store_error(error: StoreError) -> RunError {
    let kind = match error {
        StoreError::Superseded | StoreError::Leased | StoreError::Finished => {
            RunErrorKind::Superseded
        }
        StoreError::NotFound => RunErrorKind::UnknownRound,
        StoreError::RoundConsumed => RunErrorKind::RoundConflict,
        StoreError::Full { .. } | StoreError::RunTooLarge { .. } => RunErrorKind::StoreFull,
        StoreError::Unavailable | StoreError::Corrupt => RunErrorKind::Store,
    };
    RunError::new(kind, error.to_string())
}
