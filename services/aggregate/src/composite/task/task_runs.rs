//! Runs of tasks in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, oneshot};
use tracing::Instrument;
use vmcp_compose::{ResumeRequest, RunError, RunId};
use vmcp_core::{Rejection, lock};

use super::drive::drive;
use super::shutting_down;
use super::task_run::{Started, TaskRun};
use crate::composite::{CompositeCall, RunAction};
use crate::tasks::RunTaskId;

/// Runs of tasks that continue in this process while no client is connected. The store limits their number.
#[derive(Debug, Default)]
pub(crate) struct TaskRuns {
    state: Mutex<State>,
    /// Notified when a run ends or starts to wait for input.
    paused: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    runs: HashMap<RunId, Arc<TaskRun>>,
    /// `true` once the process shuts down: no run begins any more.
    is_closed: bool,
}

/// Removes a run from those of the process when its future ends.
struct RemovalGuard {
    runs: Arc<TaskRuns>,
    run: Arc<TaskRun>,
}

impl Drop for RemovalGuard {
    fn drop(&mut self) {
        let mut state = lock(&self.runs.state);
        let id = &self.run.id.run;
        if state.runs.get(id).is_some_and(|known| Arc::ptr_eq(known, &self.run)) {
            state.runs.remove(id);
        }
        drop(state);
        self.run.changed.notify_waiters();
        self.runs.paused.notify_waiters();
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
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(shutting_down());
        }
        self.spawn(&mut state, composite, id, action, Some(sender));
        Ok(receiver)
    }

    /// Continues a run that was interrupted or has all its answers.
    pub(super) fn resume(self: &Arc<Self>, composite: &CompositeCall, id: &RunTaskId) {
        let mut state = lock(&self.state);
        if let Some(run) = state.runs.get(&id.run) {
            run.latest.replace(composite);
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
            run.latest.replace(composite);
        }
    }

    /// Returns a run that continues, or waits for input, in this process.
    pub(super) fn find(&self, id: &RunTaskId) -> Option<Arc<TaskRun>> {
        lock(&self.state).runs.get(&id.run).cloned()
    }

    /// Ends a run that was cancelled, with the calls of its steps.
    pub(super) fn abort(&self, id: &RunTaskId, cancellation: RunError) {
        let run = lock(&self.state).runs.remove(&id.run);
        if let Some(run) = run {
            run.cancel(cancellation);
            run.changed.notify_waiters();
        }
    }

    /// Waits until each run has ended or waits for input. Later requests may start further ones.
    pub(crate) async fn paused(&self) {
        loop {
            // Registered before the look, so that no end in between is missed.
            let paused = self.paused.notified();
            if lock(&self.state).runs.values().all(|run| run.waits_for_input()) {
                return;
            }
            paused.await;
        }
    }

    /// Interrupts all runs. Another process, or this one after its restart, can resume them.
    pub(crate) fn end(&self) {
        let runs = {
            let mut state = lock(&self.state);
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
        let run = Arc::new(TaskRun::new(id.clone(), composite, Arc::clone(&self.paused)));
        let (runs, driven) = (Arc::clone(self), Arc::clone(&run));
        let driving = async move {
            // Created here: a runtime that shuts down drops the future under the lock that the guard takes.
            let guard = RemovalGuard { runs, run: driven };
            drive(&guard.run, action, started).await;
        };
        let task = tokio::spawn(driving.in_current_span());
        run.set_task(task.abort_handle());
        state.runs.insert(id.run.clone(), run);
    }
}
