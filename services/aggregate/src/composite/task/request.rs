//! Requests about tasks of composite tools.

use std::sync::Arc;

use http::Response;
use serde_json::json;
use vmcp_compose::{Answer, RunErrorKind, RunRecord, RunStatus, Workflow, keep_answers};
use vmcp_core::{Body, Rejection};
use vmcp_wire::Key;

use super::cancel::cancel;
use super::changed::current;
use super::view::{TaskView, is_ready};
use super::{TaskRuns, rejection, result, store_rejection};
use crate::bridge::Bridge;
use crate::call::{Call, is_composite_visible};
use crate::composite::CompositeCall;
use crate::composite::elicit::{parse_answer, parse_responses};
use crate::tasks::RunTaskId;
use crate::workflow_runs::WorkflowContext;

/// Processes `tasks/get`, `tasks/update` or `tasks/cancel`. The response is the same for the run of another caller, and for one
/// whose tool is no longer visible to the caller.
pub(crate) async fn request(
    (bridge, task_runs): (&Arc<Bridge>, &Arc<TaskRuns>),
    call: &Arc<Call>,
    method: &'static str,
    (task, id): (RunTaskId, &str),
) -> Result<Response<Body>, Rejection> {
    let workflows = &call.context.workflows;
    let unknown = || Rejection::not_found("task", id);
    // A client that lost access to a tool may still cancel its tasks.
    if method == "tasks/cancel" {
        let cancelled = cancel(task_runs, call, &task).await;
        cancelled.map_err(|error| store_rejection(error, unknown))?;
        return Ok(acknowledged(call));
    }
    let composite = visible((bridge, task_runs), call, &task).await?.ok_or_else(|| {
        if let Some(request_context) = &call.request_context {
            request_context.record_denied("hidden from the caller");
        }
        unknown()
    })?;
    let record = current(&composite, &task).await;
    let record = record.map_err(|error| store_rejection(error, unknown))?;
    let composite = composite.with_arguments(&record);
    if method == "tasks/update" {
        update(&composite, &task).await.map_err(|error| match error {
            UpdateError::Unknown => unknown(),
            UpdateError::Rejected(rejection) => rejection,
        })?;
        return Ok(acknowledged(call));
    }
    let workflow = &composite.composite().workflow;
    let now = workflows.clock.now().into();
    if record.status == RunStatus::Interrupted || is_ready(&record, workflow, now) {
        task_runs.resume(&composite, &task);
    } else if !record.is_finished() {
        task_runs.show(&composite, &task);
    }
    let view = TaskView::of(&record, workflow, id, (now, workflows.store.lifetime()));
    Ok(result(call, &view.into_result()))
}

impl CompositeCall {
    /// Adds the arguments with which the run began.
    fn with_arguments(mut self, record: &RunRecord) -> Self {
        self.arguments = Some(record.arguments.to_string().into());
        self
    }
}

/// Returns the composite tool of a task if it is visible to the caller.
pub(super) async fn visible(
    (bridge, task_runs): (&Arc<Bridge>, &Arc<TaskRuns>),
    call: &Arc<Call>,
    task: &RunTaskId,
) -> Result<Option<CompositeCall>, Rejection> {
    let catalog = call.offered().await?;
    // A kept result needs no tool, and a step whose tool is missing fails when it starts.
    let Some(composite) = catalog.configured_composite(&task.tool) else { return Ok(None) };
    let is_visible = call.permissions.as_ref().is_none_or(|permissions| {
        let seen = (&*catalog, call.generation());
        is_composite_visible(permissions, seen, &task.tool, composite)
    });
    Ok(is_visible.then(|| CompositeCall {
        bridge: Arc::clone(bridge),
        task_runs: Arc::clone(task_runs),
        call: Arc::clone(call),
        catalog,
        name: Arc::from(&*task.tool),
        arguments: None,
        marks: Arc::default(),
    }))
}

/// Reason why answers are refused.
enum UpdateError {
    Unknown,
    Rejected(Rejection),
}

/// Keeps the answers of `tasks/update`, and continues the run if it has all of them.
async fn update(composite: &CompositeCall, task: &RunTaskId) -> Result<(), UpdateError> {
    let workflow = &composite.composite().workflow;
    let WorkflowContext { store, clock, .. } = &composite.call.context.workflows;
    let task_runs = &composite.task_runs;
    let answers = answers(&composite.call, workflow).map_err(UpdateError::Rejected)?;
    let run = (&task.owner, &task.run);
    let kept = keep_answers(workflow, run, &answers, &**store, clock).await;
    let is_ready = kept.map_err(|error| match error.kind() {
        RunErrorKind::UnknownRound => UpdateError::Unknown,
        _ => UpdateError::Rejected(rejection(&error)),
    })?;
    if is_ready {
        task_runs.resume(composite, task);
    } else {
        task_runs.show(composite, task);
    }
    if let Some(run) = task_runs.find(task) {
        run.changed.notify_waiters();
    }
    Ok(())
}

/// Reads the answers by step. Those to keys that no question of the tool has are ignored.
fn answers(call: &Call, workflow: &Workflow) -> Result<Vec<(Arc<str>, Answer)>, Rejection> {
    let given = call.message.param(Key::InputResponses).ok_or_else(|| {
        Rejection::invalid_params("tasks/update needs params.inputResponses, an object")
    })?;
    let is_question =
        |key: &str| workflow.steps().any(|step| step.kind == "elicitation" && step.id == key);
    let known = parse_responses(given)?.into_iter().filter(|(key, _)| is_question(key));
    known
        .map(|(step, answer)| {
            let answer = parse_answer(&answer).map_err(|problem| {
                Rejection::invalid_params(format!("params.inputResponses.{step}: {problem}"))
            })?;
            Ok((step.into(), answer))
        })
        .collect()
}

fn acknowledged(call: &Call) -> Response<Body> {
    result(call, &json!({ "resultType": "complete" }))
}
