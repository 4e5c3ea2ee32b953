//! Runs of composite tools as tasks (`io.modelcontextprotocol/tasks`): a client that declares the extension gets a task in
//! place of the result, and the run continues while no client is connected.

mod cancel;
mod changed;
mod drive;
mod follow;
mod request;
mod task_run;
mod task_runs;
mod view;

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;
use vmcp_compose::{RunError, RunErrorKind, RunRequest, StoreError};
use vmcp_core::{Body, Rejection};

pub(crate) use self::follow::{FollowedRun, find_run, follow_runs};
pub(crate) use self::request::request;
pub(crate) use self::task_runs::TaskRuns;
use super::{CompositeCall, RunAction, accepts_forms};
use crate::call::{Call, client_capabilities};
use crate::response;
use crate::tasks::RunTaskId;

/// Begins a run as a task. The response follows once the store has the run.
pub(super) async fn begin(
    composite: CompositeCall,
    request: RunRequest,
) -> Result<Response<Body>, Rejection> {
    let call = composite.call.clone();
    let task = RunTaskId {
        run: request.id.clone(),
        owner: request.owner.clone(),
        tool: Box::from(&*composite.name),
        may_ask: accepts_forms(client_capabilities(&call)),
        replica: call.context.run_replica(),
    };
    let sealed = task.seal(&call.context.seal, call.caller.identity());
    let id = sealed.ok().flatten().ok_or_else(Rejection::internal)?;
    let workflows = &call.context.workflows;
    let action = RunAction::Start(RunRequest { keeps_result: true, ..request });
    let task_runs = Arc::clone(&composite.task_runs);
    let started = task_runs.start(composite, &task, action)?;
    match started.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(rejection(&error)),
        // The task was aborted.
        Err(_) => return Err(shutting_down()),
    }
    let record = workflows.store.read(&task.owner, &task.run).await;
    let record = record.map_err(|error| store_rejection(error, Rejection::internal))?;
    let lifetime = workflows.store.lifetime();
    Ok(result(&call, &view::created(&record, &id, lifetime)))
}

/// Returns the response to a request for a task of a run that did not start, or for answers that are refused.
fn rejection(error: &RunError) -> Rejection {
    match error.kind() {
        RunErrorKind::StoreFull | RunErrorKind::Store => {
            Rejection::overloaded(error.to_string(), RETRY_AFTER)
        }
        RunErrorKind::Superseded => Rejection::internal(),
        _ => Rejection::invalid_params(error.to_string()),
    }
}

/// Seconds after which a client may repeat a request that a limit or the store refused.
const RETRY_AFTER: u32 = 5;

fn store_rejection(error: StoreError, unknown: impl FnOnce() -> Rejection) -> Rejection {
    match error {
        StoreError::NotFound => unknown(),
        StoreError::Unavailable | StoreError::Full { .. } => {
            Rejection::overloaded(error.to_string(), RETRY_AFTER)
        }
        StoreError::Leased
        | StoreError::Superseded
        | StoreError::Finished
        | StoreError::RoundConsumed
        | StoreError::RunTooLarge { .. }
        | StoreError::Corrupt => {
            tracing::error!(%error, "failed to read the run of a task");
            Rejection::internal()
        }
    }
}

fn shutting_down() -> Rejection {
    Rejection::overloaded("the server shuts down: call the tool again", RETRY_AFTER)
}

fn result(call: &Call, result: &Value) -> Response<Body> {
    let mut message = br#"{"jsonrpc":"2.0","id":"#.to_vec();
    message.extend_from_slice(&call.id());
    message.extend_from_slice(br#","result":"#);
    message.extend_from_slice(result.to_string().as_bytes());
    message.push(b'}');
    response::response(StatusCode::OK, Body::from(Bytes::from(message)))
}
