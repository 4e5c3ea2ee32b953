//! Observation of a run: progress notifications, audit events, counters.

use std::sync::Arc;

use bytes::Bytes;
use vmcp_compose::{RunEvent, RunObserver, StepStatus};
use vmcp_wire::write_json_string;

use super::audit::RunAudit;
use crate::call::Call;
use crate::stream::{MessageClass, Stream};
use crate::workflow_runs::RunCounters;

/// Observer of the run of one call. Sends a progress notification after each step (MCP, Progress).
pub(super) struct CallObserver {
    /// Progress token of the client's request, as JSON; `None` if the client wants no progress.
    token: Option<Bytes>,
    stream: Arc<Stream>,
    audit: Option<RunAudit>,
    counters: Arc<RunCounters>,
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
            counters: Arc::clone(&call.context.workflows.counters),
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

impl RunObserver for CallObserver {
    fn observe(&self, event: &RunEvent<'_>) {
        self.counters.count(event);
        if let Some(audit) = &self.audit {
            audit.observe(event);
        }
        if let RunEvent::StepFinished { step, status, done, steps, .. } = *event {
            self.progress(step, status, done, steps);
        }
    }
}
