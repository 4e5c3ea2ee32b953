//! `/api/workflows`: the runs of composite tools that the caller began.

use std::convert::Infallible;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::ALLOW;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use serde_json::{Value, json};
use tower_service::Service;
use vmcp_aggregate::Gateway;
use vmcp_compose::{
    IterationResult, RunId, RunRecord, RunResult, RunSummary, StepRecord, StoreError, Timestamp,
    Workflow,
};
use vmcp_core::{Body, Identity};

use crate::json_response::json_response;
use crate::paths::WORKFLOWS_PATH;

/// Number of runs in a list, unless `limit` names another one.
const DEFAULT_LIMIT: usize = 100;

/// Maximum of `limit`.
const MAX_LIMIT: usize = 1000;

/// Service that returns the caller's runs as JSON. Its stack authenticates the caller.
#[derive(Clone, Debug)]
pub(crate) struct WorkflowRuns {
    gateway: Gateway,
}

impl WorkflowRuns {
    pub(crate) fn new(gateway: Gateway) -> Self {
        Self { gateway }
    }

    async fn respond(self, method: Method, uri: Uri, caller: Identity) -> Response<Body> {
        if method != Method::GET && method != Method::HEAD {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            let mut response = json_response(status, &json!({"error": "method_not_allowed"}));
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        if caller.is_anonymous() {
            let message = "runs belong to users: callers without an identity see none";
            let error = json!({"error": "forbidden", "message": message});
            return json_response(StatusCode::FORBIDDEN, &error);
        }
        let id = uri.path().strip_prefix(WORKFLOWS_PATH).unwrap_or_default();
        let id = id.trim_start_matches('/');
        let found = if id.is_empty() {
            let Some(limit) = limit(uri.query().unwrap_or_default()) else {
                let message = format!("limit must be a number from 1 to {MAX_LIMIT}");
                let error = json!({"error": "invalid_request", "message": message});
                return json_response(StatusCode::BAD_REQUEST, &error);
            };
            let runs = self.gateway.workflow_runs(&caller, limit).await;
            runs.map(|runs| json!({"runs": runs.iter().map(summary).collect::<Vec<_>>()}))
        } else {
            let run = self.gateway.workflow_run(&caller, &RunId::new(id)).await;
            run.map(|(record, workflow)| run_json(&record, workflow.as_ref()))
        };
        match found {
            Ok(value) => json_response(StatusCode::OK, &value),
            Err(StoreError::NotFound) => {
                json_response(StatusCode::NOT_FOUND, &json!({"error": "not_found"}))
            }
            Err(error) => {
                let error = json!({"error": "unavailable", "message": error.to_string()});
                json_response(StatusCode::SERVICE_UNAVAILABLE, &error)
            }
        }
    }
}

impl<B> Service<Request<B>> for WorkflowRuns {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let caller = request.extensions().get::<Identity>();
        let caller = caller.cloned().unwrap_or_else(Identity::anonymous);
        let (method, uri) = (request.method().clone(), request.uri().clone());
        self.clone().respond(method, uri, caller).map(Ok).boxed()
    }
}

/// Returns the number of runs that the query asks for. `None` for an invalid number.
fn limit(query: &str) -> Option<usize> {
    let limits = url::form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "limit");
    limits.last().map_or(Some(DEFAULT_LIMIT), |(_, value)| {
        value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit))
    })
}

fn summary(run: &RunSummary) -> Value {
    let RunSummary { id, workflow, status, started_at, ended_at } = run;
    json!({
        "id": id.as_str(),
        "workflow": &**workflow,
        "status": status,
        "started_at": rfc3339(*started_at),
        "ended_at": ended_at.and_then(rfc3339),
        "duration_ms": duration(Some(*started_at), *ended_at),
    })
}

/// Returns a run without arguments and results, which are for the client that called the tool.
fn run_json(record: &RunRecord, workflow: Option<&Workflow>) -> Value {
    let names: Vec<_> = workflow.iter().flat_map(|it| it.steps()).map(|step| step.id).collect();
    let known = names.len().max(record.steps.keys().next_back().map_or(0, |last| last + 1));
    let steps = (0..known).map(|number| {
        let name = names.get(number).copied();
        step_json(number, name, record.steps.get(&number), record.is_finished())
    });
    let error = match &record.result {
        Some(RunResult::Failed(error)) => {
            json!({"kind": error.kind(), "message": error.to_string(), "step": error.step()})
        }
        Some(RunResult::Completed(_) | RunResult::NotKept) | None => Value::Null,
    };
    json!({
        "id": record.id.as_str(),
        "workflow": &*record.workflow,
        "status": record.status,
        "started_at": rfc3339(record.started_at),
        "ended_at": record.ended_at.and_then(rfc3339),
        "duration_ms": duration(Some(record.started_at), record.ended_at),
        "steps": steps.collect::<Vec<_>>(),
        "error": error,
    })
}

/// Returns a step. Its name is unknown after a change of the definition.
fn step_json(
    number: usize,
    name: Option<&str>,
    record: Option<&StepRecord>,
    is_run_finished: bool,
) -> Value {
    let Some(record) = record else {
        let status = if is_run_finished { "not_started" } else { "pending" };
        return json!({"number": number, "id": name, "status": status});
    };
    let StepRecord {
        started_at,
        ended_at,
        attempts,
        is_in_flight: _,
        question,
        iterations,
        result,
    } = record;
    let status = match result {
        Some(result) => result.status.as_str(),
        None if question.is_some() => "input_required",
        None => "running",
    };
    let mut step = json!({
        "number": number,
        "id": name,
        "status": status,
        "started_at": started_at.map(rfc3339),
        "ended_at": ended_at.and_then(rfc3339),
        "duration_ms": duration(*started_at, *ended_at),
        "attempts": attempts,
        "question": question.as_deref().filter(|_| result.is_none()),
        "error": result.as_ref().and_then(|result| result.error.as_deref()),
    });
    if !iterations.is_empty() {
        let ended = |is_completed| {
            let ended = iterations.values().filter_map(|iteration| iteration.result.as_ref());
            ended.filter(|it| matches!(it, IterationResult::Completed(_)) == is_completed).count()
        };
        let (completed, failed) = (ended(true), ended(false));
        step["iterations"] =
            json!({"started": iterations.len(), "completed": completed, "failed": failed});
    }
    step
}

/// Returns a duration in milliseconds, once it has ended.
fn duration(start: Option<Timestamp>, end: Option<Timestamp>) -> Option<u64> {
    Some(end?.0.saturating_sub(start?.0))
}

/// Formats a point in time with three digits of a second, so that texts sort as times do.
fn rfc3339(at: Timestamp) -> Option<String> {
    let millis = i64::try_from(at.0).ok()?;
    jiff::Timestamp::from_millisecond(millis).ok().map(|at| format!("{at:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_of_a_second() {
        assert_eq!(rfc3339(Timestamp(1_120)).unwrap(), "1970-01-01T00:00:01.120Z");
        assert_eq!(rfc3339(Timestamp(2_000)).unwrap(), "1970-01-01T00:00:02.000Z");
    }
}
