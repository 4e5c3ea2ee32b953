//! Spans and metrics of a run and of its steps.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use vmcp_compose::{RunError, RunErrorKind, RunEvent, StepStatus};
use vmcp_core::{RequestContext, lock};
use vmcp_telemetry::later_context;
use vmcp_telemetry::metrics::{RunOutcome, StepOutcome};
use vmcp_telemetry::workflow::{RunObserver, StepObserver};

/// Recorder of the spans and metrics of a run, as far as one request continues it.
#[derive(Debug)]
pub(super) struct RunTelemetry {
    workflow: String,
    request: RequestContext,
    state: Mutex<State>,
}

/// Never locked across an await.
#[derive(Debug, Default)]
struct State {
    id: String,
    /// `None` before the start and after the end.
    run: Option<RunObserver>,
    /// Steps that started, by identifier.
    steps: BTreeMap<String, StepObserver>,
}

impl RunTelemetry {
    /// Creates the recorder for a request, if a layer observes it.
    pub(super) fn of(request: Option<&RequestContext>, workflow: &str) -> Option<Self> {
        let request = request.filter(|request| request.has_extension())?.clone();
        Some(Self { workflow: workflow.to_owned(), request, state: Mutex::default() })
    }

    /// Creates the recorder of what happens to a run after the end of this request.
    pub(super) fn later(request: Option<&RequestContext>, workflow: &str) -> Option<Self> {
        let request = later_context(request?)?;
        Some(Self { workflow: workflow.to_owned(), request, state: Mutex::default() })
    }

    /// Returns the context that the requests of a step continue.
    pub(super) fn step_context(&self, step: &str) -> Option<RequestContext> {
        lock(&self.state).steps.get(step).map(|step| step.context().clone())
    }

    pub(super) fn observe(&self, event: &RunEvent<'_>) {
        let mut state = lock(&self.state);
        match *event {
            RunEvent::RunStarted { run, .. } | RunEvent::RunResumed { run, .. } => {
                state.id = run.to_string();
                state.run = RunObserver::new(&self.request, &self.workflow);
            }
            RunEvent::StepStarted { step, tool } => {
                if let Some(started) = state.run.as_ref().map(|run| run.start_step(step, tool)) {
                    state.steps.insert(step.to_owned(), started);
                }
            }
            RunEvent::StepFinished { step, status, duration, .. } => {
                let outcome = step_outcome(status);
                let started = state.steps.remove(step);
                // A question may have started in an earlier request.
                let started = started.or_else(|| {
                    let run = state.run.as_ref().filter(|_| !duration.is_zero())?;
                    Some(run.start_step(step, None))
                });
                match started {
                    Some(step) => step.end(outcome, duration),
                    None => _ = state.run.as_ref().map(|run| run.count_step(outcome)),
                }
            }
            RunEvent::RunSuspended { duration, .. } => {
                std::mem::take(&mut state.steps).into_values().for_each(StepObserver::suspend);
                state.end(RunOutcome::Suspended, duration);
            }
            RunEvent::RunInterrupted { duration } => state.end(RunOutcome::Interrupted, duration),
            RunEvent::RunFinished { error, duration } => state.end(run_outcome(error), duration),
            _ => {}
        }
    }
}

impl State {
    fn end(&mut self, outcome: RunOutcome, duration: Duration) {
        if let Some(run) = self.run.take() {
            run.end(&self.id, outcome, duration);
        }
    }
}

fn run_outcome(error: Option<&RunError>) -> RunOutcome {
    match error.map(RunError::kind) {
        None => RunOutcome::Completed,
        Some(RunErrorKind::Denied) => RunOutcome::Denied,
        Some(RunErrorKind::Declined) => RunOutcome::Declined,
        Some(RunErrorKind::TimedOut) => RunOutcome::TimedOut,
        Some(RunErrorKind::Cancelled) => RunOutcome::Cancelled,
        Some(_) => RunOutcome::Failed,
    }
}

fn step_outcome(status: StepStatus) -> StepOutcome {
    match status {
        StepStatus::Completed => StepOutcome::Completed,
        StepStatus::Failed => StepOutcome::Failed,
        StepStatus::Skipped => StepOutcome::Skipped,
        StepStatus::Cancelled => StepOutcome::Cancelled,
    }
}
