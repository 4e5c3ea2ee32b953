//! Observation of a run: progress notifications, audit events, spans and metrics, counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use vmcp_compose::{RunEvent, RunObserver, StepStatus};
use vmcp_core::RequestContext;
use vmcp_wire::write_json_string;

use super::audit::RunAudit;
use super::telemetry::RunTelemetry;
use crate::call::Call;
use crate::stream::{MessageClass, Stream};
use crate::workflow_runs::RunCounters;

/// Observer of the run of one call. Sends a progress notification after each step (MCP, Progress).
pub(super) struct CallObserver {
    /// Progress token of the client's request, as JSON; `None` if the client wants no progress.
    token: Option<Bytes>,
    stream: Arc<Stream>,
    audit: Option<RunAudit>,
    telemetry: Option<RunTelemetry>,
    counters: Arc<RunCounters>,
    /// `true` while each running step waits for the user. Relaxed: the events of one run come one after the other.
    is_waiting: AtomicBool,
    /// `true` after the end of the run. Relaxed for the same reason.
    is_over: AtomicBool,
}

impl CallObserver {
    pub(super) fn new(
        call: &Call,
        workflow: &str,
        token: Option<Bytes>,
        stream: &Arc<Stream>,
    ) -> Self {
        Self {
            token,
            stream: Arc::clone(stream),
            audit: RunAudit::of(call, workflow),
            telemetry: RunTelemetry::of(call.request_context.as_ref(), workflow),
            counters: Arc::clone(&call.context.workflows.counters),
            is_waiting: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns the context that the requests of a step continue, if they are traced.
    pub(super) fn step_context(&self, step: &str) -> Option<RequestContext> {
        self.telemetry.as_ref()?.step_context(step)
    }

    /// Returns `true` if the run ended.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Counts the run among those that wait for the user until its next event.
    fn count_wait(&self, event: &RunEvent<'_>) {
        let waits = matches!(event, RunEvent::WaitingForInput { .. });
        if self.is_waiting.swap(waits, Ordering::Relaxed) != waits {
            self.counters.count_wait(waits);
        }
    }

    fn progress(&self, step: &str, status: StepStatus, done: usize, steps: usize) {
        let Some(token) = &self.token else { return };
        let status = match status {
            StepStatus::Completed => "completed",
            StepStatus::Failed => "failed",
            StepStatus::Skipped => "skipped",
            // The run ends with it, and progress has to increase.
            StepStatus::Cancelled => return,
        };
        let mut message =
            br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#
                .to_vec();
        message.extend_from_slice(token);
        message.extend_from_slice(
            format!(r#","progress":{done},"total":{steps},"message":"#).as_bytes(),
        );
        write_json_string(&format!("step {step}: {status}"), &mut message);
        message.extend_from_slice(b"}}");
        self.stream.push(message.into(), MessageClass::Droppable);
    }
}

/// Observer of a suspended run's end without another request.
pub(super) struct EndObserver {
    audit: Option<RunAudit>,
    telemetry: Option<RunTelemetry>,
    counters: Arc<RunCounters>,
}

impl EndObserver {
    pub(super) fn new(call: &Call, workflow: &str) -> Self {
        Self {
            audit: RunAudit::of(call, workflow),
            telemetry: RunTelemetry::later(call.request_context.as_ref(), workflow),
            counters: Arc::clone(&call.context.workflows.counters),
        }
    }
}

impl RunObserver for EndObserver {
    fn observe(&self, event: &RunEvent<'_>) {
        self.counters.count(event);
        if let Some(telemetry) = &self.telemetry {
            telemetry.observe(event);
        }
        if let Some(audit) = &self.audit {
            audit.observe(event);
        }
    }
}

impl RunObserver for CallObserver {
    fn observe(&self, event: &RunEvent<'_>) {
        self.count_wait(event);
        self.counters.count(event);
        if let Some(telemetry) = &self.telemetry {
            telemetry.observe(event);
        }
        if let Some(audit) = &self.audit {
            audit.observe(event);
        }
        if let RunEvent::StepFinished { step, status, done, steps, .. } = *event {
            self.progress(step, status, done, steps);
        }
        if matches!(event, RunEvent::RunFinished { .. }) {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }
}
