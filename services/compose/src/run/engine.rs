//! Run of a workflow in one process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::RunContext;
use super::journal::Journal;
use super::scope::Scope;
use crate::plan::{Plan, PlannedCall, PlannedStep};
use crate::{
    Question, RecordedQuestion, RunEvent, RunId, RunObserver, RunOwner, StepStatus, Timestamp,
    ToolInfo,
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
    pub(super) active: Arc<ActiveSteps>,
}

/// Steps whose start was reported and whose end was not. Shared with the guard, and never locked across an await.
#[derive(Debug, Default)]
pub(super) struct ActiveSteps(Mutex<BTreeMap<usize, Instant>>);

/// Reports an interruption, unless the run ended or was suspended before it is dropped.
pub(super) struct InterruptionGuard<'a> {
    observer: &'a dyn RunObserver,
    plan: &'a Plan,
    active: Arc<ActiveSteps>,
    done: usize,
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
            self.active.report_cancelled(self.observer, self.plan, self.done);
            let duration = self.started.elapsed();
            self.observer.observe(&RunEvent::RunInterrupted { duration });
        }
    }
}

impl ActiveSteps {
    pub(super) fn start(&self, step: usize, at: Instant) {
        vmcp_core::lock(&self.0).insert(step, at);
    }

    /// Returns the time since the start of a step, which is no longer active.
    pub(super) fn end(&self, step: usize) -> Duration {
        vmcp_core::lock(&self.0).remove(&step).map_or(Duration::ZERO, |at| at.elapsed())
    }

    /// Reports the end of the active steps, which the run does not wait for.
    pub(super) fn report_cancelled(&self, observer: &dyn RunObserver, plan: &Plan, done: usize) {
        let active = std::mem::take(&mut *vmcp_core::lock(&self.0));
        for (step, at) in active {
            observer.observe(&RunEvent::StepFinished {
                step: &plan.steps[step].id,
                status: StepStatus::Cancelled,
                error: None,
                answer: None,
                duration: at.elapsed(),
                done,
                steps: plan.steps.len(),
            });
        }
    }
}

impl<'a, C> Engine<'a, C> {
    /// Reports an interruption until the guard is disarmed.
    pub(super) fn guard(&self, done: usize) -> InterruptionGuard<'a> {
        let observer: &'a dyn RunObserver = &*self.context.observer;
        let (plan, active, started) = (self.plan, Arc::clone(&self.active), self.started);
        InterruptionGuard { observer, plan, active, done, started, is_over: false }
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
            started: self.started,
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
