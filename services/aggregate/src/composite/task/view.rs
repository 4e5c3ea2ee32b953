//! States of a task as clients see them.

use std::time::Duration;

use serde_json::{Map, Value, json};
use vmcp_compose::{
    RunError, RunErrorKind, RunRecord, RunResult, RunStatus, StepRecord, Timestamp, Workflow,
};
use vmcp_core::{Rejection, code};

use crate::composite::elicit::elicitation_params;
use crate::composite::outcome::{FailedRun, completed, failed};

/// Interval at which clients should request a task.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Message of a task whose result exceeds the limits of the store.
const NOT_KEPT: &str = "the tool succeeded, but its result was not kept: kept results of its owner or of all owners reached \
                        the limit of the workflow store";

/// State of a task, the result of `tasks/get`.
pub(super) struct TaskView {
    pub(super) status: TaskStatus,
    /// Steps whose questions are open.
    pub(super) questions: Vec<String>,
    members: Map<String, Value>,
}

/// Status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskStatus {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl TaskStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns `true` for a status that does not change any more.
    pub(super) fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Returns the result of the call that became a task.
pub(super) fn created(record: &RunRecord, id: &str, lifetime: Duration) -> Value {
    let mut members = base(record, id, TaskStatus::Working, record.updated_at, lifetime);
    members.insert("resultType".to_owned(), "task".into());
    Value::Object(members)
}

/// Returns `true` if a run that waits for input can continue: each of its questions has an answer or expired.
pub(super) fn is_ready(record: &RunRecord, workflow: &Workflow, now: Timestamp) -> bool {
    let open = workflow.open_questions(record);
    record.status == RunStatus::InputRequired
        && (open.is_empty() || open.iter().any(|question| question.expires_at <= now.into()))
}

impl TaskView {
    /// Creates the view of a run. `workflow` is the present definition.
    pub(super) fn of(
        record: &RunRecord,
        workflow: &Workflow,
        id: &str,
        (now, lifetime): (Timestamp, Duration),
    ) -> Self {
        let mut more = Map::new();
        let mut questions = Vec::new();
        let status = match (&record.result, record.status) {
            (_, RunStatus::Cancelled) => TaskStatus::Cancelled,
            (Some(result), _) => end(result, &mut more),
            (None, RunStatus::InputRequired) if !is_ready(record, workflow, now) => {
                let mut requests = Map::new();
                for question in workflow.open_questions(record) {
                    let params = elicitation_params(&question, None);
                    let request = json!({ "method": "elicitation/create", "params": params });
                    requests.insert(question.step.to_string(), request);
                    questions.push(question.step.to_string());
                }
                more.insert("inputRequests".to_owned(), requests.into());
                TaskStatus::InputRequired
            }
            (None, _) => {
                if let Some(message) = running_steps(record, workflow) {
                    more.insert("statusMessage".to_owned(), message.into());
                }
                TaskStatus::Working
            }
        };
        // The lease of a run in progress keeps it.
        let is_running = record.status == RunStatus::Running;
        let seen = if is_running { record.updated_at.max(now) } else { record.updated_at };
        let mut members = base(record, id, status, seen, lifetime);
        members.append(&mut more);
        Self { status, questions, members }
    }

    /// Returns the result of `tasks/get`.
    pub(super) fn into_result(mut self) -> Value {
        self.members.insert("resultType".to_owned(), "complete".into());
        Value::Object(self.members)
    }

    /// Returns the parameters of `notifications/tasks`.
    pub(super) fn into_params(self) -> Value {
        Value::Object(self.members)
    }
}

/// Returns the members of each state. The run is kept for `lifetime` after `seen`.
fn base(
    record: &RunRecord,
    id: &str,
    status: TaskStatus,
    seen: Timestamp,
    lifetime: Duration,
) -> Map<String, Value> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let ttl = seen.since(record.started_at).saturating_add(lifetime);
    let members = [
        ("taskId", id.into()),
        ("status", status.as_str().into()),
        ("createdAt", record.started_at.to_string().into()),
        ("lastUpdatedAt", record.updated_at.to_string().into()),
        ("ttlMs", millis(ttl).into()),
        ("pollIntervalMs", millis(POLL_INTERVAL).into()),
    ];
    members.into_iter().map(|(name, value): (_, Value)| (name.to_owned(), value)).collect()
}

/// Adds the result or the error of a run that ended.
fn end(result: &RunResult, more: &mut Map<String, Value>) -> TaskStatus {
    let failed = match result {
        RunResult::Completed(output) => FailedRun::Result(completed(output)),
        RunResult::NotKept => FailedRun::Rejected(
            Rejection::new(http::StatusCode::OK, code::INTERNAL, NOT_KEPT)
                .with_data(br#"{"retryable":false}"#.to_vec()),
        ),
        RunResult::Failed(error) => match error.kind() {
            RunErrorKind::OutcomeUnknown => FailedRun::Rejected(outcome_unknown(error)),
            RunErrorKind::Denied => FailedRun::Rejected(denied(error)),
            _ => failed(error),
        },
    };
    match failed {
        FailedRun::Result(mut result) => {
            result["resultType"] = "complete".into();
            more.insert("result".to_owned(), result);
            TaskStatus::Completed
        }
        FailedRun::Rejected(rejection) => {
            more.insert("statusMessage".to_owned(), rejection.message().into());
            let message = serde_json::from_slice::<Value>(&rejection.to_json(None)).ok();
            let error = message.and_then(|mut message| Some(message.get_mut("error")?.take()));
            let error = error.unwrap_or_else(|| json!({ "code": rejection.code() }));
            more.insert("error".to_owned(), error);
            TaskStatus::Failed
        }
    }
}

/// A run whose call may have acted before its process ended has neither a result nor an error of a tool.
fn outcome_unknown(error: &RunError) -> Rejection {
    Rejection::new(http::StatusCode::OK, code::INTERNAL, error.to_string())
        .with_data(br#"{"retryable":false}"#.to_vec())
}

/// The store keeps the reason of a denial as text.
fn denied(error: &RunError) -> Rejection {
    Rejection::new(http::StatusCode::FORBIDDEN, code::FORBIDDEN, error.to_string())
}

/// Returns the message that names the running steps.
fn running_steps(record: &RunRecord, workflow: &Workflow) -> Option<String> {
    let is_running = |step: &StepRecord| step.result.is_none() && step.question.is_none();
    let running = record.steps.iter().filter(|(_, step)| is_running(step));
    let names: Vec<_> = workflow.steps().map(|step| step.id).collect();
    let known = record.definition == workflow.definition();
    let running = running.filter_map(|(step, _)| names.get(*step).copied().filter(|_| known));
    let running: Vec<_> = running.collect();
    match &running[..] {
        [] => None,
        [step] => Some(format!("running step {step}")),
        steps => Some(format!("running steps {}", steps.join(", "))),
    }
}
