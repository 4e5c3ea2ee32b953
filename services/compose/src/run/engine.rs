//! Run of a workflow in one process.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::RunContext;
use super::journal::Journal;
use super::scope::Scope;
use crate::plan::{Plan, PlannedCall, PlannedStep};
use crate::{
    Question, RecordedQuestion, RunEvent, RunId, RunObserver, RunOwner, Timestamp, ToolInfo,
};

/// Run in this process.
pub(super) struct Engine<'a, C> {
    pub(super) plan: &'a Plan,
    pub(super) context: &'a RunContext<C>,
    pub(super) run: &'a RunId,
    pub(super) owner: &'a RunOwner,
    /// Rounds of questions before.
    pub(super) rounds: usize,
    pub(super) arguments: Arc<serde_json::Value>,
    pub(super) started_at: Timestamp,
    /// Start of the run by the clock of timeouts.
    pub(super) started: Instant,
    pub(super) deadline: Instant,
    pub(super) journal: Journal<'a>,
}

/// Reports an interruption, unless the run ended or was suspended before it is dropped.
pub(super) struct InterruptionGuard<'a> {
    observer: &'a dyn RunObserver,
    started: Instant,
    is_over: bool,
}

impl InterruptionGuard<'_> {
    pub(super) fn disarm(mut self) {
        self.is_over = true;
    }
}

impl Drop for InterruptionGuard<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let duration = self.started.elapsed();
            self.observer.observe(&RunEvent::RunInterrupted { duration });
        }
    }
}

impl<'a, C> Engine<'a, C> {
    /// Reports an interruption until the guard is disarmed.
    pub(super) fn guard(&self) -> InterruptionGuard<'a> {
        let observer: &'a dyn RunObserver = &*self.context.observer;
        InterruptionGuard { observer, started: self.started, is_over: false }
    }
}

impl<C> Engine<'_, C> {
    pub(super) fn is_repeatable(&self, call: &PlannedCall) -> bool {
        self.context.tools.tool(&call.tool).as_ref().is_some_and(ToolInfo::is_repeatable)
    }

    pub(super) fn scope(&self) -> Scope<'_> {
        Scope {
            plan: self.plan,
            run: self.run,
            arguments: &self.arguments,
            started_at: self.started_at,
            elapsed: self.started.elapsed(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.context.clock.now().into()
    }

    pub(super) fn observe(&self, event: &RunEvent<'_>) {
        self.context.observer.observe(event);
    }

    /// Opens a round: the time of its questions starts when the client sees them. Returns them as the store keeps them.
    pub(super) fn open_round(
        &self,
        questions: &mut BTreeMap<usize, Question>,
    ) -> Vec<RecordedQuestion> {
        let now = self.now();
        let record = |(&step, question): (&usize, &mut Question)| {
            let expires_at = self.expiry(&self.plan.steps[step], now);
            question.expires_at = expires_at.into();
            let message = question.message.as_str().into();
            RecordedQuestion { step, message, expires_at, answered_by: None }
        };
        questions.iter_mut().map(record).collect()
    }

    /// Returns the end of a question that the user sees from `since` on.
    pub(super) fn expiry(&self, step: &PlannedStep, since: Timestamp) -> Timestamp {
        since.plus(step.timeout).min(self.started_at.plus(self.plan.timeout))
    }
}
