//! Events of a run, for progress, audit, metrics and traces.

use std::time::Duration;

use crate::{AnswerAction, RunError, RunId, StepStatus};

/// Observer of a run. Called within the run: returns fast and does not block.
pub trait RunObserver: Send + Sync {
    /// Observes an event.
    fn observe(&self, event: &RunEvent<'_>);
}

/// Event of a run. Each [`RunStarted`](Self::RunStarted) and [`RunResumed`](Self::RunResumed) is followed by one of
/// [`RunSuspended`](Self::RunSuspended), [`RunInterrupted`](Self::RunInterrupted) and [`RunFinished`](Self::RunFinished); each
/// [`StepStarted`](Self::StepStarted) by a [`StepFinished`](Self::StepFinished), unless its question suspends the run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RunEvent<'a> {
    /// The run started.
    RunStarted {
        /// The run.
        run: &'a RunId,
        /// Name of the composite tool.
        workflow: &'a str,
        /// Number of all steps.
        steps: usize,
    },
    /// The run continues after a suspension or an interruption.
    RunResumed {
        /// The run.
        run: &'a RunId,
        /// Name of the composite tool.
        workflow: &'a str,
        /// Number of steps that are done already.
        done: usize,
        /// Number of all steps.
        steps: usize,
    },
    /// A step started, or an interrupted one starts again. A question that stays open across a suspension starts once.
    StepStarted {
        /// Identifier of the step.
        step: &'a str,
        /// The tool. `None` for a question.
        tool: Option<&'a str>,
    },
    /// An iteration of a `forEach` step ended.
    IterationFinished {
        /// Identifier of the step.
        step: &'a str,
        /// Number of the iteration, counted from 0.
        iteration: usize,
        /// `true` if the call succeeded.
        succeeded: bool,
        /// Time that it took.
        duration: Duration,
    },
    /// A failed call is repeated after a delay.
    RetryScheduled {
        /// Identifier of the step.
        step: &'a str,
        /// Number of the iteration of a `forEach` step.
        iteration: Option<usize>,
        /// Number of the next attempt.
        attempt: u32,
        /// The delay.
        delay: Duration,
        /// Error of the last attempt.
        error: &'a str,
    },
    /// A step ended or was skipped.
    StepFinished {
        /// Identifier of the step.
        step: &'a str,
        /// Status of the step.
        status: StepStatus,
        /// Error of a failed step.
        error: Option<&'a str>,
        /// Answer to its question.
        answer: Option<AnswerAction>,
        /// Time that the step took; zero if it was skipped.
        duration: Duration,
        /// Number of steps that are done.
        done: usize,
        /// Number of all steps.
        steps: usize,
    },
    /// Each running step waits for the user, in place.
    WaitingForInput {
        /// Number of open questions.
        questions: usize,
    },
    /// The run is stored and given back until the user answers.
    RunSuspended {
        /// Number of open questions.
        questions: usize,
        /// Time since the start of the run.
        duration: Duration,
    },
    /// The future of the run was dropped, such as after the client disconnected. The calls in progress are cancelled.
    RunInterrupted {
        /// Time since the start of the run.
        duration: Duration,
    },
    /// The run ended.
    RunFinished {
        /// Error of a run that failed.
        error: Option<&'a RunError>,
        /// Time since the start of the run.
        duration: Duration,
    },
}

impl<F: Fn(&RunEvent<'_>) + Send + Sync> RunObserver for F {
    fn observe(&self, event: &RunEvent<'_>) {
        self(event);
    }
}
