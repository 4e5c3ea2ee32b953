//! Telemetry of a workflow's run: a span below that of the request, one below it for each step, and measurements.

use std::time::{Duration, SystemTime};

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanKind, Status};
use tokio::time::Instant;
use vmcp_core::RequestContext;

use crate::EndedSpan;
use crate::attributes::truncate;
use crate::metrics::{RunOutcome, StepOutcome, names};
use crate::recorder::Inner;
use crate::trace_link::{SpanPosition, child_context, recorder_of};

/// Observer of one run of a workflow within a request.
///
/// A run that several requests continue has a span in each of them, with the same `vmcp.workflow.id`.
#[derive(Debug)]
pub struct RunObserver {
    request: RequestContext,
    workflow: Box<str>,
    span: OpenSpan,
}

/// Observer of one step of a run.
#[derive(Debug)]
pub struct StepObserver {
    request: RequestContext,
    step: Box<str>,
    tool: Option<Box<str>>,
    span: OpenSpan,
}

/// Span that has not ended.
#[derive(Debug)]
struct OpenSpan {
    /// `None` without tracing.
    position: Option<SpanPosition>,
    /// Context for what the span causes.
    context: RequestContext,
    start: Instant,
}

impl RunObserver {
    /// Observes a run that the request starts or continues. `None` for a request that no telemetry layer observes.
    /// `workflow` is a name of the configuration.
    #[must_use]
    pub fn new(request: &RequestContext, workflow: &str) -> Option<Self> {
        recorder_of(request)?;
        let span = OpenSpan::below(request);
        Some(Self { request: request.clone(), workflow: workflow.into(), span })
    }

    /// Observes a step that starts. `tool` is `None` for a step that calls none.
    #[must_use]
    pub fn start_step(&self, step: &str, tool: Option<&str>) -> StepObserver {
        StepObserver {
            request: self.request.clone(),
            step: step.into(),
            tool: tool.map(Into::into),
            span: OpenSpan::below(&self.span.context),
        }
    }

    /// Counts a step that was skipped or failed before it started.
    pub fn count_step(&self, outcome: StepOutcome) {
        if let Some(recorder) = recorder_of(&self.request).filter(|recorder| recorder.has_meter) {
            recorder.workflow.record_step(outcome, 0.0);
        }
    }

    /// Records the end of the run `id`, or of its part in this request, `duration` after the start of the run.
    pub fn end(self, id: &str, outcome: RunOutcome, duration: Duration) {
        let Some(recorder) = recorder_of(&self.request) else { return };
        if recorder.has_meter {
            recorder.workflow.record_run(&self.workflow, outcome, duration.as_secs_f64());
        }
        let status = match outcome {
            RunOutcome::Completed => Status::Ok,
            RunOutcome::Cancelled | RunOutcome::Interrupted | RunOutcome::Suspended => {
                Status::Unset
            }
            RunOutcome::Failed
            | RunOutcome::Denied
            | RunOutcome::Declined
            | RunOutcome::TimedOut => Status::error(""),
        };
        let workflow = recorder.workflow.label(&self.workflow);
        self.span.end(recorder, format!("invoke_workflow {workflow}"), status, || {
            vec![
                KeyValue::new("gen_ai.operation.name", "invoke_workflow"),
                KeyValue::new("vmcp.workflow.name", workflow.to_owned()),
                KeyValue::new("vmcp.workflow.id", truncate(id)),
                KeyValue::new(names::WORKFLOW_OUTCOME, outcome.as_str()),
            ]
        });
    }
}

impl StepObserver {
    /// Returns the context that the requests of the step continue.
    #[must_use]
    pub fn context(&self) -> &RequestContext {
        &self.span.context
    }

    /// Records the end of the step, `duration` after its start.
    pub fn end(self, outcome: StepOutcome, duration: Duration) {
        let Some(recorder) = recorder_of(&self.request) else { return };
        if recorder.has_meter {
            recorder.workflow.record_step(outcome, duration.as_secs_f64());
        }
        let status = match outcome {
            StepOutcome::Completed | StepOutcome::Skipped => Status::Ok,
            StepOutcome::Cancelled => Status::Unset,
            StepOutcome::Failed => Status::error(""),
        };
        self.record_span(recorder, outcome.as_str(), status);
    }

    /// Records the part of a step in a request whose run is suspended. No metric counts it.
    pub fn suspend(self) {
        let Some(recorder) = recorder_of(&self.request) else { return };
        self.record_span(recorder, RunOutcome::Suspended.as_str(), Status::Unset);
    }

    fn record_span(&self, recorder: &Inner, outcome: &'static str, status: Status) {
        let Self { step, tool, span, request: _ } = self;
        span.end(recorder, format!("step {}", truncate(step)), status, || {
            let mut attributes = vec![
                KeyValue::new("vmcp.workflow.step.id", truncate(step)),
                KeyValue::new(names::WORKFLOW_OUTCOME, outcome),
            ];
            let tool = tool.as_deref().map(truncate);
            attributes.extend(tool.map(|tool| KeyValue::new("gen_ai.tool.name", tool)));
            attributes
        });
    }
}

impl OpenSpan {
    /// Opens a span below that of `cause`.
    fn below(cause: &RequestContext) -> Self {
        let start = Instant::now();
        match child_context(cause) {
            Some((context, position)) => Self { position: Some(position), context, start },
            None => Self { position: None, context: cause.clone(), start },
        }
    }

    fn end(
        &self,
        recorder: &Inner,
        name: String,
        status: Status,
        attributes: impl FnOnce() -> Vec<KeyValue>,
    ) {
        let Some(spans) = &recorder.spans else { return };
        let Some(position) = self.position.as_ref().filter(|it| it.sampled()) else { return };
        let Some(context) = position.context.clone() else { return };
        let end = SystemTime::now();
        spans.record(EndedSpan {
            context,
            parent: position.parent.clone(),
            parent_is_remote: position.is_remote,
            name,
            kind: SpanKind::Internal,
            start: end.checked_sub(self.start.elapsed()).unwrap_or(end),
            end,
            attributes: attributes(),
            status,
        });
    }
}

#[cfg(test)]
mod tests;
