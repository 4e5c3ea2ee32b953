//! Course of a task's run in this process.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use vmcp_compose::{
    Elicitation, InputRequired, Outcome, ResumeRequest, RunEvent, RunObserver, resume, run,
};
use vmcp_core::{Clock, lock};

use super::task_run::{Started, TaskRun};
use crate::composite::observe::CallObserver;
use crate::composite::step_calls::StepCalls;
use crate::composite::{CompositeCall, RunAction};
use crate::stream::Stream;
use crate::tasks::RunTaskId;

/// Sender of the outcome of a start, used once.
type StartSignal = Arc<Mutex<Option<oneshot::Sender<Started>>>>;

/// Runs a task to its end. While it waits for input, a wake-up or the expiry of a question continues it.
pub(super) async fn drive(
    task: &Arc<TaskRun>,
    mut action: RunAction,
    started: Option<oneshot::Sender<Started>>,
) {
    let started = Arc::new(Mutex::new(started));
    loop {
        let composite = task.latest.get();
        let outcome = tokio::select! {
            outcome = act(&composite, task, action, &started) => outcome,
            // The run is interrupted until the owner's next request.
            () = task.latest.revoked() => return,
        };
        let input = match outcome {
            Outcome::InputRequired(input) => input,
            Outcome::Failed(error) => {
                signal(&started, Err(error));
                return;
            }
            Outcome::Completed(_) => return,
        };
        task.changed.notify_waiters();
        task.set_waits_for_input(true);
        tokio::select! {
            () = task.wake.notified() => {}
            () = wait_for_expiry(&input, &composite.call.context.workflows.clock) => {}
        }
        task.set_waits_for_input(false);
        let RunTaskId { run, owner, .. } = &task.id;
        action = RunAction::Resume(ResumeRequest {
            id: run.clone(),
            owner: owner.clone(),
            answers: None,
        });
    }
}

/// Runs until the end or the next questions.
async fn act(
    composite: &CompositeCall,
    task: &Arc<TaskRun>,
    action: RunAction,
    started: &StartSignal,
) -> Outcome {
    // No request of the client waits for messages of backends.
    let stream = Stream::ended();
    let observer = Arc::new(CallObserver::new(&composite.call, &composite.name, None, &stream));
    let calls = StepCalls::of_task(composite, &task.latest, &stream, &observer);
    let observer =
        TaskObserver { inner: observer, started: Arc::clone(started), task: Arc::clone(task) };
    let elicitation = if task.id.may_ask { Elicitation::Suspend } else { Elicitation::Unsupported };
    let context = composite.context(calls, elicitation, Arc::new(observer));
    let workflow = &composite.composite().workflow;
    match action {
        RunAction::Start(request) => run(workflow, request, &context).await,
        RunAction::Resume(request) => resume(workflow, request, &context).await,
    }
}

/// Waits until the first of these questions expires.
async fn wait_for_expiry(input: &InputRequired, clock: &Clock) {
    let first = input.questions.iter().map(|question| question.expires_at).min();
    match first {
        Some(first) => {
            let left = first.duration_since(clock.now()).unwrap_or_default();
            tokio::time::sleep(left).await;
        }
        None => std::future::pending().await,
    }
}

fn signal(started: &StartSignal, outcome: Started) {
    if let Some(sender) = lock(started).take() {
        // The client may be gone.
        _ = sender.send(outcome);
    }
}

/// Observer that reports the start of a run, and the cancellation of one that is aborted.
struct TaskObserver {
    inner: Arc<CallObserver>,
    started: StartSignal,
    task: Arc<TaskRun>,
}

impl RunObserver for TaskObserver {
    fn observe(&self, event: &RunEvent<'_>) {
        if matches!(event, RunEvent::RunStarted { .. }) {
            signal(&self.started, Ok(()));
        }
        match (*event, self.task.cancellation()) {
            (RunEvent::RunInterrupted { duration }, Some(error)) => {
                self.inner.observe(&RunEvent::RunFinished { error: Some(error), duration });
            }
            _ => self.inner.observe(event),
        }
    }
}
