//! Run of a task in this process.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use vmcp_compose::RunError;

use crate::composite::CompositeCall;
use crate::composite::latest_call::LatestCall;
use crate::tasks::RunTaskId;

/// Run of a task.
pub(super) struct TaskRun {
    pub(super) id: RunTaskId,
    /// Latest request of the owner about the task.
    pub(super) latest: Arc<LatestCall>,
    /// Notified when a run that waits for input can continue.
    pub(super) wake: Notify,
    /// Notified when the state of the task may have changed.
    pub(super) changed: Notify,
    /// `true` while the run waits for the user's answers. Relaxed: it guards no other memory.
    waits_for_input: AtomicBool,
    /// Notified when the run starts to wait for input.
    paused: Arc<Notify>,
    abort: OnceLock<AbortHandle>,
    /// Error of a run that its owner cancelled.
    cancellation: OnceLock<RunError>,
}

/// Outcome of the start of a run: `Ok` once the store has it.
pub(super) type Started = Result<(), RunError>;

impl TaskRun {
    pub(super) fn new(id: RunTaskId, composite: CompositeCall, paused: Arc<Notify>) -> Self {
        Self {
            id,
            latest: Arc::new(LatestCall::new(composite)),
            wake: Notify::new(),
            changed: Notify::new(),
            waits_for_input: AtomicBool::new(false),
            paused,
            abort: OnceLock::new(),
            cancellation: OnceLock::new(),
        }
    }

    /// Sets the task that executes the run, once.
    pub(super) fn set_task(&self, task: AbortHandle) {
        _ = self.abort.set(task);
    }

    /// Returns `true` while the run waits for the user's answers.
    pub(super) fn waits_for_input(&self) -> bool {
        self.waits_for_input.load(Ordering::Relaxed)
    }

    pub(super) fn set_waits_for_input(&self, waits: bool) {
        self.waits_for_input.store(waits, Ordering::Relaxed);
        if waits {
            self.paused.notify_waiters();
        }
    }

    /// Ends the run with the error that the store has.
    pub(super) fn cancel(&self, error: RunError) {
        _ = self.cancellation.set(error);
        self.abort();
    }

    /// Returns the error of a run that its owner cancelled.
    pub(super) fn cancellation(&self) -> Option<&RunError> {
        self.cancellation.get()
    }

    pub(super) fn abort(&self) {
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
