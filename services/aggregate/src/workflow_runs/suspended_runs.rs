//! Suspended runs, which end if their client does not return.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use vmcp_compose::{
    InputRequired, RunId, RunObserver, RunOwner, StoreError, Workflow, end_unanswered,
};
use vmcp_core::lock;

use super::WorkflowContext;

/// Time after the expiry of the last question in which a request of the client continues the run.
const GRACE_PERIOD: Duration = Duration::from_mins(1);

/// Runs that this process suspended until their client repeats its request. Those of tasks are not among them: the expiry of
/// a question continues them.
#[derive(Debug, Default)]
pub(crate) struct SuspendedRuns(Mutex<HashMap<RunId, SuspendedRun>>);

/// Suspended run.
struct SuspendedRun {
    owner: RunOwner,
    workflow: Workflow,
    /// Observer of the run's end.
    observer: Box<dyn RunObserver>,
    /// Expiry of the last question.
    expires_at: SystemTime,
}

impl SuspendedRuns {
    /// Adds a run, or replaces its questions.
    pub(crate) fn insert(
        &self,
        workflow: &Workflow,
        owner: RunOwner,
        input: &InputRequired,
        observer: impl RunObserver + 'static,
    ) {
        let Some(expires_at) = input.questions.iter().map(|it| it.expires_at).max() else { return };
        let (workflow, observer) = (workflow.clone(), Box::new(observer));
        let suspended = SuspendedRun { owner, workflow, observer, expires_at };
        lock(&self.0).insert(input.run.clone(), suspended);
    }

    /// Removes a run that ended.
    pub(crate) fn remove(&self, run: &RunId) {
        lock(&self.0).remove(run);
    }

    /// Ends the runs whose questions all expired without an answer, after a grace period.
    pub(crate) async fn end_unanswered(&self, workflows: &WorkflowContext) {
        let now = workflows.clock.now();
        let Some(until) = now.checked_sub(GRACE_PERIOD) else { return };
        let over: Vec<_> =
            lock(&self.0).extract_if(|_, suspended| suspended.expires_at <= until).collect();
        for (run, suspended) in over {
            let SuspendedRun { owner, workflow, observer, .. } = &suspended;
            let (store, observer) = (&*workflows.store, &**observer);
            let ended = end_unanswered(workflow, (owner, &run), until, store, observer, now).await;
            match ended {
                Ok(()) => {}
                // The next sweep looks again, unless the run is suspended again.
                Err(StoreError::Leased | StoreError::Unavailable) => {
                    if let Entry::Vacant(free) = lock(&self.0).entry(run) {
                        free.insert(suspended);
                    }
                }
                Err(error) => tracing::error!(%error, "failed to end a run without answers"),
            }
        }
    }
}

impl fmt::Debug for SuspendedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SuspendedRun")
            .field("workflow", &self.workflow.name())
            .finish_non_exhaustive()
    }
}
