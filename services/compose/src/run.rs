//! Runs of workflows.

mod call;
mod content;
mod drive;
mod engine;
mod entry;
mod failure;
mod for_each;
mod journal;
mod kept_answers;
mod output;
mod progress;
mod question;
mod resumption;
mod retry;
mod scope;
mod start;
mod unanswered;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use vmcp_core::Clock;

pub use self::entry::{resume, run};
pub use self::kept_answers::keep_answers;
pub use self::unanswered::end_unanswered;
use crate::{
    Answer, Elicitation, Question, RunError, RunId, RunObserver, RunOwner, ToolLookup,
    WorkflowStore,
};

/// Surroundings of a run. `C` is the tower service that calls tools; it authorizes, audits and traces each call.
#[derive(Clone)]
pub struct RunContext<C> {
    /// Service that calls tools.
    pub calls: C,
    /// Facts about the tools, for the types of arguments and for repeats after an interruption.
    pub tools: Arc<dyn ToolLookup>,
    /// Handling of questions.
    pub elicitation: Elicitation,
    /// Store of the run.
    pub store: Arc<dyn WorkflowStore>,
    /// Observer of the run's events.
    pub observer: Arc<dyn RunObserver>,
    /// Wall clock.
    pub clock: Clock,
    /// Randomness of the delays between retries.
    pub jitter: Jitter,
}

/// Run that starts.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// Identifier of the run, [`RunId::random`].
    pub id: RunId,
    /// Owner of the run.
    pub owner: RunOwner,
    /// Arguments of the client.
    pub arguments: Map<String, Value>,
    /// Keeps the result in the store after the end, for a client that asks for it later, such as by `tasks/get`.
    pub keeps_result: bool,
}

/// Continuation of a run that was suspended or interrupted.
#[derive(Clone, Debug)]
pub struct ResumeRequest {
    /// Identifier of the run.
    pub id: RunId,
    /// Owner of the run.
    pub owner: RunOwner,
    /// Answers to the questions of a round. `None` continues an interrupted run.
    pub answers: Option<RoundAnswers>,
}

/// Answers to the questions of a round, as a client repeats them with `requestState`.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundAnswers {
    /// Number of the round ([`InputRequired::round`]).
    pub round: usize,
    /// Answers by step. Questions without an answer are asked again.
    pub answers: Vec<(Arc<str>, Answer)>,
}

/// Source of random numbers from 0 to 1, without 1.
#[derive(Clone)]
pub struct Jitter(Arc<dyn Fn() -> f64 + Send + Sync>);

/// End of [`run`] or [`resume`].
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The run succeeded.
    Completed(RunOutput),
    /// The run is suspended until the user answers.
    InputRequired(InputRequired),
    /// The run failed.
    Failed(RunError),
}

/// Output of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutput {
    value: Arc<Value>,
}

/// Questions of a suspended run (MCP `input_required`).
#[derive(Clone, Debug)]
pub struct InputRequired {
    /// The run, for `requestState`.
    pub run: RunId,
    /// The round, for `requestState`.
    pub round: usize,
    /// The questions, at least one.
    pub questions: Vec<Question>,
}

// === impl Jitter ===

impl Jitter {
    /// Creates a source from a function.
    #[must_use]
    pub fn new(random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(random))
    }

    /// Returns the source of the operating system.
    #[must_use]
    pub fn system() -> Self {
        // Without random numbers, delays are those of the configuration.
        Self::new(|| getrandom::u32().map_or(0.5, |random| f64::from(random) / 4_294_967_296.0))
    }
}

impl Jitter {
    pub(crate) fn next(&self) -> f64 {
        (self.0)()
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jitter")
    }
}

// === impl RunOutput ===

impl RunOutput {
    pub(crate) fn new(value: Arc<Value>) -> Self {
        Self { value }
    }

    /// Returns the output as JSON, the text content of the result.
    #[must_use]
    ///
    /// # Panics
    /// Never: each value of JSON can be written.
    pub fn text(&self) -> String {
        serde_json::to_string(&*self.value).expect("each value of JSON can be written")
    }

    /// Returns `structuredContent`. `None` if no step completed.
    #[must_use]
    pub fn structured_content(&self) -> Option<&Map<String, Value>> {
        self.value.as_object()
    }

    /// Returns the value.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }
}

impl<C> fmt::Debug for RunContext<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("elicitation", &self.elicitation)
            .field("store", &self.store)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
