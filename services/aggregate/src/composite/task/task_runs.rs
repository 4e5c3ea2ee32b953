//! Runs of tasks in this process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::{Notify, oneshot, watch};
use tokio::task::AbortHandle;
use tracing::Instrument;
use vmcp_compose::{ResumeRequest, RunError, RunId};
use vmcp_core::{Rejection, lock};

use super::drive::drive;
use super::shutting_down;
use crate::composite::{CompositeCall, RunAction};
use crate::expiry::{is_expired, wait_for_revocation};
use crate::tasks::RunTaskId;

/// Runs of tasks that continue in this process while no client is connected. The store limits their number.
#[derive(Debug, Default)]
pub(crate) struct TaskRuns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    runs: HashMap<RunId, Arc<TaskRun>>,
    /// `true` once the process shuts down: no run begins any more.
    is_closed: bool,
}

/// Run of a task.
pub(crate) struct TaskRun {
    pub(super) id: RunTaskId,
    /// Latest request of the owner about the task. The steps that follow use its token, permissions and configuration.
    latest: watch::Sender<CompositeCall>,
    /// Notified when a run that waits for input can continue.
    pub(super) wake: Notify,
    /// Notified when the state of the task may have changed.
    pub(super) changed: Notify,
    abort: OnceLock<AbortHandle>,
}

/// Outcome of the start of a run: `Ok` once the store has it.
pub(super) type Started = Result<(), RunError>;

/// Removes a run from those of the process when its future ends.
struct RemovalGuard {
    runs: Arc<TaskRuns>,
    run: Arc<TaskRun>,
}

impl Drop for RemovalGuard {
    fn drop(&mut self) {
        let mut state = lock(&self.runs.0);
        let id = &self.run.id.run;
        if state.runs.get(id).is_some_and(|known| Arc::ptr_eq(known, &self.run)) {
            state.runs.remove(id);
        }
        drop(state);
        self.run.changed.notify_waiters();
    }
}

impl TaskRuns {
    /// Starts a run. The receiver gets its outcome, and an error if the run is aborted before.
    pub(super) fn start(
        self: &Arc<Self>,
        composite: CompositeCall,
        id: &RunTaskId,
        action: RunAction,
    ) -> Result<oneshot::Receiver<Started>, Rejection> {
        let (sender, receiver) = oneshot::channel();
        let mut state = lock(&self.0);
        if state.is_closed {
            return Err(shutting_down());
        }
        self.spawn(&mut state, composite, id, action, Some(sender));
        Ok(receiver)
    }

    /// Continues a run that was interrupted or has all its answers.
    pub(super) fn resume(self: &Arc<Self>, composite: &CompositeCall, id: &RunTaskId) {
        let mut state = lock(&self.0);
        if let Some(run) = state.runs.get(&id.run) {
            run.show(composite);
            run.wake.notify_one();
        } else if !state.is_closed {
            let RunTaskId { run, owner, .. } = id;
            let request = ResumeRequest { id: run.clone(), owner: owner.clone(), answers: None };
            let action = RunAction::Resume(request);
            self.spawn(&mut state, composite.clone(), id, action, None);
        }
    }

    /// Shows the owner's latest request to a run.
    pub(super) fn show(&self, composite: &CompositeCall, id: &RunTaskId) {
        if let Some(run) = self.find(id) {
            run.show(composite);
        }
    }

    /// Returns a run that continues, or waits for input, in this process.
    pub(super) fn find(&self, id: &RunTaskId) -> Option<Arc<TaskRun>> {
        lock(&self.0).runs.get(&id.run).cloned()
    }

    /// Ends a run that was cancelled, with the calls of its steps.
    pub(super) fn abort(&self, id: &RunTaskId) {
        let run = lock(&self.0).runs.remove(&id.run);
        if let Some(run) = run {
            run.abort();
            run.changed.notify_waiters();
        }
    }

    /// Interrupts all runs. Another process, or this one after its restart, can resume them.
    pub(crate) fn end(&self) {
        let runs = {
            let mut state = lock(&self.0);
            state.is_closed = true;
            std::mem::take(&mut state.runs)
        };
        for run in runs.into_values() {
            run.abort();
        }
    }

    fn spawn(
        self: &Arc<Self>,
        state: &mut State,
        composite: CompositeCall,
        id: &RunTaskId,
        action: RunAction,
        started: Option<oneshot::Sender<Started>>,
    ) {
        let run = Arc::new(TaskRun {
            id: id.clone(),
            latest: watch::Sender::new(composite),
            wake: Notify::new(),
            changed: Notify::new(),
            abort: OnceLock::new(),
        });
        let (runs, driven) = (Arc::clone(self), Arc::clone(&run));
        let driving = async move {
            // Created here: a runtime that shuts down drops the future under the lock that the guard takes.
            let guard = RemovalGuard { runs, run: driven };
            drive(&guard.run, action, started).await;
        };
        let task = tokio::spawn(driving.in_current_span());
        _ = run.abort.set(task.abort_handle());
        state.runs.insert(id.run.clone(), run);
    }
}

impl TaskRun {
    /// Returns the owner's latest request.
    pub(super) fn latest(&self) -> CompositeCall {
        self.latest.borrow().clone()
    }

    /// Returns the owner's latest request, after waiting for one whose token is valid.
    pub(crate) async fn authorized(&self) -> CompositeCall {
        let mut latest = self.latest.subscribe();
        loop {
            let composite = latest.borrow_and_update().clone();
            let clock = &composite.call.context.workflows.clock;
            if !is_expired(composite.call.caller.identity(), clock) {
                return composite;
            }
            if latest.changed().await.is_err() {
                // The sender is in `self`.
                return composite;
            }
        }
    }

    /// Waits until the session of the owner's latest request is revoked.
    pub(super) async fn revoked(&self) {
        let mut latest = self.latest.subscribe();
        loop {
            let composite = latest.borrow_and_update().clone();
            tokio::select! {
                () = wait_for_revocation(composite.call.caller.identity()) => return,
                Ok(()) = latest.changed() => {}
            }
        }
    }

    /// Replaces the owner's latest request. The run keeps the tools of its own definition.
    fn show(&self, composite: &CompositeCall) {
        self.latest.send_modify(|latest| {
            let CompositeCall { bridge, call, catalog, name, arguments: _ } = composite.clone();
            let is_same = composite.composite().workflow == latest.composite().workflow;
            let catalog = if is_same { catalog } else { Arc::clone(&latest.catalog) };
            let arguments = latest.arguments.clone();
            *latest = CompositeCall { bridge, call, catalog, name, arguments };
        });
    }

    fn abort(&self) {
        if let Some(task) = self.abort.get() {
            task.abort();
        }
    }
}

impl fmt::Debug for TaskRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskRun").field("run", &self.id.run).finish_non_exhaustive()
    }
}
