//! Calls of composite tools: runs of workflows on behalf of one caller (seed section 2.9.4).

mod audit;
mod elicit;
mod input_required;
mod latest_call;
mod observe;
mod outcome;
mod step_access;
mod step_calls;
mod step_result;
mod task;
mod telemetry;

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use tracing::Instrument;
use vmcp_compose::{
    Elicitation, Outcome, ResumeRequest, RunContext, RunId, RunObserver, RunOwner, RunRequest,
    ToolInfo, resume, run,
};
use vmcp_core::{Body, Rejection, code};
use vmcp_wire::{Key, find, members};

use self::elicit::SessionElicit;
use self::input_required::RoundState;
use self::observe::{CallObserver, EndObserver};
use self::outcome::Answer;
use self::step_calls::StepCalls;
pub(crate) use self::task::{
    FollowedRun, TaskRuns, find_run, follow_runs, request as task_request,
};
use crate::backend::error::BackendError;
use crate::bridge::Bridge;
use crate::bridge::call_stream::answering_stream;
use crate::call::{Call, admit_composite, client_capabilities, forward_call};
use crate::capabilities::{TASKS, declares};
use crate::catalog::{Composite, Kind};
use crate::event_stream::event_stream;
use crate::replicas::ForwardKind;
use crate::response;
use crate::session::{PendingMarks, Session};
use crate::snapshot::BackendCatalog;
use crate::stream::{Opening, Stream};
use crate::workflow_runs::{WorkflowContext, run_owner};

/// Call of a composite tool.
#[derive(Clone)]
struct CompositeCall {
    bridge: Arc<Bridge>,
    task_runs: Arc<TaskRuns>,
    call: Arc<Call>,
    catalog: Arc<BackendCatalog>,
    name: Arc<str>,
    /// Arguments of the composite tool as JSON, for the policies.
    arguments: Option<Bytes>,
    /// Marks of the results of steps, which the client does not see.
    marks: Arc<PendingMarks>,
}

/// Beginning or continuation of a run.
enum RunAction {
    Start(RunRequest),
    Resume(ResumeRequest),
}

/// Calls the composite tool that a request names. Returns `None` if no composite tool has that name for the caller.
pub(crate) async fn call(
    (bridge, task_runs): (&Arc<Bridge>, &Arc<TaskRuns>),
    call: &Arc<Call>,
) -> Option<Result<Response<Body>, Rejection>> {
    let name = call.message.text(Key::Name)?.read(&call.message.bytes).into_owned();
    let is_configured =
        |call: &Call| call.snapshot.rules.workflows.iter().any(|workflow| workflow.name() == name);
    if !is_configured(call) {
        return None;
    }
    let catalog = match call.offered().await {
        Ok(catalog) => catalog,
        Err(rejection) => return Some(Err(rejection)),
    };
    catalog.composite(Kind::Tools, &name)?;
    let composite = CompositeCall {
        bridge: Arc::clone(bridge),
        task_runs: Arc::clone(task_runs),
        call: Arc::clone(call),
        catalog,
        name: name.into(),
        arguments: call.message.param(Key::Arguments).map(|it| call.message.bytes.slice_ref(it)),
        marks: Arc::default(),
    };
    Some(composite.answer().await)
}

impl CompositeCall {
    fn composite(&self) -> &Composite {
        self.catalog.configured_composite(&self.name).expect("the call was made for it")
    }

    async fn answer(self) -> Result<Response<Body>, Rejection> {
        if let Some(replica) = input_required::replica(&self.call) {
            return forward_call(&self.call, ForwardKind::WorkflowRun, &replica, false).await;
        }
        let arguments = self.call.message.param(Key::Arguments);
        if arguments.is_some_and(|value| value.first() != Some(&b'{')) {
            return Err(Rejection::invalid_params("params.arguments must be an object"));
        }
        admit_composite(&self.call, &self.catalog, &self.name, self.composite(), arguments)?;
        let action = match self.action(arguments)? {
            RunAction::Start(request) if self.accepts_tasks() => {
                return task::begin(self, request).await;
            }
            action => action,
        };
        match self.call.session.clone() {
            Some(session) => self.on_session(&session, action),
            // The decoder has checked that the client accepts a stream.
            None if self.progress_token().is_some() => Ok(self.on_stream(action)),
            None => {
                // The client gets the result only.
                let stream = Stream::ended();
                match self.run(action, &stream).await {
                    Answer::Message(message) => {
                        Ok(response::response(StatusCode::OK, Body::from(message)))
                    }
                    Answer::Rejected(rejection) => Err(rejection),
                }
            }
        }
    }

    /// Returns `true` if the client follows tasks, which need no session.
    fn accepts_tasks(&self) -> bool {
        self.call.session.is_none() && declares(&self.call.message, TASKS)
    }

    fn owner(&self) -> RunOwner {
        run_owner(self.call.caller.identity(), self.call.address)
    }

    /// Returns the run that the request begins or continues.
    fn action(&self, arguments: Option<&[u8]>) -> Result<RunAction, Rejection> {
        // Sessions carry no state between requests.
        let carried = if self.call.session.is_none() { RoundState::of(&self.call)? } else { None };
        if let Some(RoundState { run, owner, answers }) = carried {
            return Ok(RunAction::Resume(ResumeRequest { id: run, owner, answers: Some(answers) }));
        }
        let owner = self.owner();
        let arguments = serde_json::from_slice(arguments.unwrap_or(b"{}")).map_err(|error| {
            Rejection::invalid_params(format!("params.arguments cannot be read: {error}"))
        })?;
        Ok(RunAction::Start(RunRequest {
            id: RunId::random(),
            owner,
            arguments,
            keeps_result: false,
        }))
    }

    /// Answers on a stream of the session, so that the run continues after a lost connection.
    fn on_session(
        self,
        session: &Arc<Session>,
        action: RunAction,
    ) -> Result<Response<Body>, Rejection> {
        let guard = session.register_local(self.call.active())?;
        let (stream, response) = answering_stream(&self.call, &guard)?;
        let limit = self.call.context.detached_timeout;
        let running = async move {
            tokio::select! {
                // Boxed: the run is larger than the rest of the future, which moves to its task.
                answer = Box::pin(self.run(action, &stream)) => {
                    let finish = |message| stream.finish(message, None);
                    if !self.marks.finish(&stream, self.message(answer), finish) {
                        self.give_up(&stream, &BackendError::RESPONSE_OVER_BUFFER);
                    }
                }
                // A cancelled request has no response.
                () = guard.cancelled.notified() => {}
                why = stream.abandoned(limit) => self.give_up(&stream, &why.into()),
            }
            stream.end();
        };
        let running = tokio::spawn(running.in_current_span());
        session.streams().own(running.abort_handle());
        Ok(response)
    }

    /// Answers a client without a session on a stream, for progress notifications. The run ends with the connection.
    fn on_stream(self, action: RunAction) -> Response<Body> {
        let stream = Stream::unnumbered(self.call.account().as_ref());
        let response = event_stream(Body::wrap(stream.connect(None, Opening::Plain)));
        let running = async move {
            tokio::select! {
                answer = self.run(action, &stream) => {
                    stream.finish(self.message(answer), None);
                }
                () = stream.disconnected() => {}
            }
            stream.end();
        };
        tokio::spawn(running.in_current_span());
        response
    }

    /// Ends the stream of a client that was away with an error.
    fn give_up(&self, stream: &Stream, why: &BackendError) {
        self.call.context.budgets.detached.count_ended();
        tracing::debug!(tool = %self.name, error = %why, "detached call ended");
        let rejection = Rejection::new(StatusCode::OK, code::INTERNAL, why.to_string());
        stream.finish(self.message(Answer::Rejected(rejection)), None);
    }

    fn message(&self, answer: Answer) -> Bytes {
        match answer {
            Answer::Message(message) => message,
            Answer::Rejected(rejection) if self.call.session.is_some() => {
                self.call.failure(&rejection.for_stateful_client())
            }
            Answer::Rejected(rejection) => self.call.failure(&rejection),
        }
    }

    async fn run(&self, action: RunAction, stream: &Arc<Stream>) -> Answer {
        let progress = self.progress_token().map(Bytes::copy_from_slice);
        let observer = Arc::new(CallObserver::new(&self.call, &self.name, progress, stream));
        let calls = StepCalls::new(self, stream, &observer);
        let context =
            self.context(calls, self.elicitation(stream), Arc::<CallObserver>::clone(&observer));
        let workflow = &self.composite().workflow;
        let suspended = &self.call.context.workflows.suspended;
        let (owner, outcome) = match action {
            RunAction::Start(request) => {
                (request.owner.clone(), run(workflow, request, &context).await)
            }
            RunAction::Resume(request) => {
                let (id, owner) = (request.id.clone(), request.owner.clone());
                let outcome = resume(workflow, request, &context).await;
                if observer.is_over() {
                    suspended.remove(&id);
                }
                (owner, outcome)
            }
        };
        if let Outcome::InputRequired(input) = &outcome {
            let observer = EndObserver::new(&self.call, &self.name);
            suspended.insert(workflow, owner.clone(), input, observer);
        }
        match outcome {
            Outcome::Completed(output) => Answer::completed(&self.call, &output),
            Outcome::InputRequired(input) => Answer::input_required(&self.call, &owner, &input),
            Outcome::Failed(error) => Answer::failed(&self.call, &error),
        }
    }

    /// Returns the surroundings of a run.
    fn context(
        &self,
        calls: StepCalls,
        elicitation: Elicitation,
        observer: Arc<dyn RunObserver>,
    ) -> RunContext<StepCalls> {
        let WorkflowContext { store, clock, jitter, .. } = self.call.context.workflows.clone();
        let (catalog, name) = (Arc::clone(&self.catalog), Arc::clone(&self.name));
        let tools = move |tool: &str| -> Option<ToolInfo> {
            Some(catalog.configured_composite(&name)?.tools.get(tool)?.info().clone())
        };
        RunContext { calls, tools: Arc::new(tools), elicitation, store, observer, clock, jitter }
    }

    /// Returns the way to ask the user: a request on the session, or a response that asks for another request.
    fn elicitation(&self, stream: &Arc<Stream>) -> Elicitation {
        if !accepts_forms(client_capabilities(&self.call)) {
            return Elicitation::Unsupported;
        }
        match &self.call.session {
            Some(session) => Elicitation::Wait(Arc::new(SessionElicit::new(session, stream))),
            None => Elicitation::Suspend,
        }
    }

    /// Returns the progress token of the request, as JSON.
    fn progress_token(&self) -> Option<&[u8]> {
        find(self.call.message.param(Key::Meta)?, "progressToken")
    }
}

/// Returns `true` if the client declares elicitation by form. An empty capability means forms, as before the mode `url` existed.
fn accepts_forms(capabilities: &[u8]) -> bool {
    find(capabilities, "elicitation")
        .is_some_and(|it| find(it, "form").is_some() || members(it).next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_need_support_for_forms() {
        for (capabilities, accepted) in [
            (r#"{"elicitation":{}}"#, true),
            (r#"{"elicitation":{"form":{}}}"#, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true),
            (r#"{"elicitation":{"url":{}}}"#, false),
            (r#"{"sampling":{}}"#, false),
        ] {
            assert_eq!(accepts_forms(capabilities.as_bytes()), accepted, "{capabilities}");
        }
    }
}
