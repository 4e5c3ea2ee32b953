//! End of waiting runs whose composite tool was changed by a reload.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use vmcp_compose::{
    Elicitation, ResumeRequest, RunRecord, RunStatus, StoreError, Workflow, resume,
};

use crate::call::Call;
use crate::composite::CompositeCall;
use crate::composite::observe::CallObserver;
use crate::composite::step_calls::StepCalls;
use crate::stream::Stream;
use crate::tasks::RunTaskId;

/// Limit for another process that continues the run at the same moment.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads the record of a task's run. A run that waits for answers to an earlier definition cannot use them: it ends.
pub(super) async fn current(
    composite: &CompositeCall,
    task: &RunTaskId,
) -> Result<RunRecord, StoreError> {
    let record = read(&composite.call, task).await?;
    if record.status != RunStatus::InputRequired {
        return Ok(record);
    }
    let newest = composite.call.context.catalogs.snapshot();
    let mut configured = newest.rules.workflows.iter();
    match configured.find(|it| *it.name() == *composite.name) {
        Some(workflow) if workflow.definition() != record.definition => {
            _ = timeout(END_TIMEOUT, end(composite, workflow, task)).await;
            read(&composite.call, task).await
        }
        // A later reload may bring back the composite tool.
        Some(_) | None => Ok(record),
    }
}

/// Ends a run of another definition.
async fn end(composite: &CompositeCall, workflow: &Workflow, task: &RunTaskId) {
    let stream = Stream::ended();
    let observer = Arc::new(CallObserver::new(&composite.call, &composite.name, None, &stream));
    let calls = StepCalls::new(composite, &stream, &observer);
    let context = composite.context(calls, Elicitation::Unsupported, observer);
    let request = ResumeRequest { id: task.run.clone(), owner: task.owner.clone(), answers: None };
    // The outcome is in the record.
    _ = resume(workflow, request, &context).await;
    if let Some(run) = composite.task_runs.find(task) {
        run.wake.notify_one();
        run.changed.notify_waiters();
    }
}

/// Reads the record of a task's run.
pub(super) async fn read(call: &Call, task: &RunTaskId) -> Result<RunRecord, StoreError> {
    call.context.workflows.store.read(&task.owner, &task.run).await
}
