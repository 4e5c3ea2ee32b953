//! Audit events of a run and of its steps.

use std::sync::OnceLock;

use http::HeaderMap;
use http::header::{HeaderName, USER_AGENT};
use vmcp_audit::{
    Auditor, BoundedText, Event, EventDetails, EventSource, EventTarget, EventType, FieldValue,
    Outcome,
};
use vmcp_compose::{RunError, RunErrorKind, RunEvent, StepStatus};
use vmcp_core::Identity;

use crate::call::Call;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Recorder of a run's audit events.
pub(super) struct RunAudit {
    auditor: Auditor,
    source: EventSource,
    caller: Identity,
    workflow: String,
    run: OnceLock<String>,
}

impl RunAudit {
    /// Creates the recorder of a call, if requests are audited.
    pub(super) fn of(call: &Call, workflow: &str) -> Option<Self> {
        let auditor = call.auditor.clone()?;
        let header = |name| text(&call.headers, name);
        let source = EventSource::Network {
            address: call.address,
            user_agent: header(USER_AGENT),
            request_id: header(REQUEST_ID),
        };
        let (caller, workflow) = (call.caller.identity().clone(), workflow.to_owned());
        Some(Self { auditor, source, caller, workflow, run: OnceLock::new() })
    }

    pub(super) fn observe(&self, event: &RunEvent<'_>) {
        match *event {
            RunEvent::RunStarted { run, steps, .. } => {
                _ = self.run.set(run.to_string());
                let steps = ("step_count", FieldValue::Number(steps as u64));
                let details = EventDetails { more: vec![steps], ..EventDetails::default() };
                self.record(EventType::WorkflowStarted, Outcome::Success, None, details);
            }
            // The run began once. Its later events show that it continues.
            RunEvent::RunResumed { run, .. } => _ = self.run.set(run.to_string()),
            RunEvent::RunFinished { error, duration } => {
                let (kind, outcome) = end_of_run(error);
                let details = EventDetails { duration: Some(duration), ..EventDetails::default() };
                self.record(kind, outcome, None, details);
            }
            RunEvent::RunInterrupted { duration } => {
                let details = EventDetails { duration: Some(duration), ..EventDetails::default() };
                self.record(EventType::WorkflowFailed, Outcome::Failure, None, details);
            }
            RunEvent::StepStarted { step, tool } => {
                // A step without a tool asks the user, and the run waits.
                let waits =
                    tool.is_none().then(|| ("status", FieldValue::Text("input_required".into())));
                let more = waits.into_iter().collect();
                let details = EventDetails { more, ..EventDetails::default() };
                let step = Some((step, tool));
                self.record(EventType::WorkflowStepStarted, Outcome::Success, step, details);
            }
            RunEvent::StepFinished { step, status, answer, duration, .. } => {
                let (kind, outcome) = match status {
                    StepStatus::Completed => (EventType::WorkflowStepCompleted, Outcome::Success),
                    StepStatus::Skipped => (EventType::WorkflowStepSkipped, Outcome::Success),
                    StepStatus::Failed => {
                        (EventType::WorkflowStepFailed, Outcome::ApplicationError)
                    }
                    StepStatus::Cancelled => (EventType::WorkflowStepFailed, Outcome::Failure),
                };
                let more =
                    answer.map(|answer| ("answer", FieldValue::Text(answer.as_str().into())));
                let (duration, more) = (Some(duration), more.into_iter().collect());
                let details = EventDetails { duration, more, ..EventDetails::default() };
                self.record(kind, outcome, Some((step, None)), details);
            }
            _ => {}
        }
    }

    fn record(
        &self,
        kind: EventType,
        outcome: Outcome,
        step: Option<(&str, Option<&str>)>,
        details: EventDetails,
    ) {
        if !self.auditor.is_enabled(kind) {
            return;
        }
        let mut more = vec![("workflow_name", (&*self.workflow).into())];
        if let Some(run) = self.run.get() {
            more.push(("workflow_id", (&**run).into()));
        }
        if let Some((step, tool)) = step {
            more.push(("step_id", step.into()));
            more.extend(tool.map(|tool| ("tool_name", tool.into())));
        }
        let target_kind = if step.is_some() { "workflow_step" } else { "workflow" };
        let target = EventTarget { kind: target_kind, more, ..EventTarget::default() };
        self.auditor.record(Event {
            source: self.source.clone(),
            caller: Some(self.caller.clone()),
            target,
            details,
            ..Event::new(kind, outcome, self.auditor.now())
        });
    }
}

fn end_of_run(error: Option<&RunError>) -> (EventType, Outcome) {
    match error.map(RunError::kind) {
        None => (EventType::WorkflowCompleted, Outcome::Success),
        Some(RunErrorKind::TimedOut) => (EventType::WorkflowTimedOut, Outcome::ApplicationError),
        Some(RunErrorKind::Denied) => (EventType::WorkflowFailed, Outcome::Denied),
        Some(RunErrorKind::Cancelled) => (EventType::WorkflowFailed, Outcome::Failure),
        Some(_) => (EventType::WorkflowFailed, Outcome::ApplicationError),
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<BoundedText> {
    headers.get(name)?.to_str().ok().map(BoundedText::from)
}
