//! Cancellation of a task by its owner.

use vmcp_compose::{
    RunError, RunEvent, RunObserver, RunRecord, RunResult, RunStatus, StepStatus, StoreError,
    Timestamp, Workflow,
};

use super::TaskRuns;
use crate::call::Call;
use crate::composite::observe::EndObserver;
use crate::tasks::RunTaskId;

/// Cancels the run of a task. The process that executes the run reports its end; that of a run that waits for input is
/// reported here.
pub(super) async fn cancel(
    task_runs: &TaskRuns,
    call: &Call,
    task: &RunTaskId,
) -> Result<(), StoreError> {
    let store = &call.context.workflows.store;
    let before = store.read(&task.owner, &task.run).await?;
    store.cancel(&task.owner, &task.run).await?;
    let record = store.read(&task.owner, &task.run).await?;
    let Some(RunResult::Failed(error)) = record.result else { return Ok(()) };
    if record.status == RunStatus::Cancelled && before.status == RunStatus::InputRequired {
        report_end(call, task, &before, &error);
    }
    task_runs.abort(task, error);
    Ok(())
}

/// Reports the end of a run that waited for input.
fn report_end(call: &Call, task: &RunTaskId, record: &RunRecord, error: &RunError) {
    let now = Timestamp::from(call.context.workflows.clock.now());
    let observer = EndObserver::new(call, &task.tool);
    let mut workflows = call.snapshot.rules.workflows.iter();
    let workflow = workflows.find(|workflow| workflow.definition() == record.definition);
    let ids: Vec<_> = workflow.into_iter().flat_map(Workflow::steps).map(|step| step.id).collect();
    let (steps, run) = (ids.len(), &record.id);
    let mut done = record.steps.values().filter(|step| step.result.is_some()).count();
    observer.observe(&RunEvent::RunResumed { run, workflow: &task.tool, done, steps });
    for (number, step) in &record.steps {
        let Some(id) = ids.get(*number).filter(|_| step.result.is_none()) else { continue };
        done += 1;
        observer.observe(&RunEvent::StepFinished {
            step: id,
            status: StepStatus::Cancelled,
            error: None,
            answer: None,
            duration: now.since(step.started_at.unwrap_or(now)),
            done,
            steps,
        });
    }
    let duration = now.since(record.started_at);
    observer.observe(&RunEvent::RunFinished { error: Some(error), duration });
}
