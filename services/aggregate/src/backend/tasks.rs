//! Tasks that observe the backends and check their health.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use futures_util::future::join_all;
use tokio::task::JoinHandle;

use crate::backend::context::BackendContext;
use crate::backend::health::check::check;
use crate::backend::observe::observe;
use crate::backend::{BackendHandle, BackendId};
use crate::settings::Checks;
use vmcp_core::lock;

/// Observer and health check tasks of all backends.
#[derive(Debug, Default)]
pub(crate) struct BackendTasks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: HashMap<BackendId, TaskHandles>,
    /// Backends that no configuration contains any more, until their tasks and sessions have ended.
    removed: Vec<EndedBackend>,
}

#[derive(Debug)]
struct TaskHandles {
    backend: Arc<BackendHandle>,
    observer: JoinHandle<()>,
    /// Health check task with its settings.
    checker: Option<(Checks, JoinHandle<()>)>,
}

/// Backend whose tasks have been aborted.
#[derive(Debug)]
pub(crate) struct EndedBackend {
    /// Dangling once the backend has no sessions and no calls any more.
    backend: Weak<BackendHandle>,
    tasks: Vec<JoinHandle<()>>,
}

impl BackendTasks {
    /// Runs tasks for these backends and ends those of others. Tasks of unchanged backends continue.
    pub(crate) fn follow(
        &self,
        context: &BackendContext,
        backends: &[Arc<BackendHandle>],
        checks: Option<Checks>,
    ) {
        let mut state = lock(&self.0);
        let mut old = std::mem::take(&mut state.running);
        for backend in backends {
            let known = old.remove(&backend.id);
            backend.health.set_threshold(checks.map(|checks| checks.unhealthy_threshold()));
            let (observer, checker) = if let Some(handles) = known {
                (handles.observer, handles.checker)
            } else {
                let observing = observe(context.clone(), Arc::clone(backend));
                (tokio::spawn(observing), None)
            };
            let checker = following(checker, checks, || (context.clone(), Arc::clone(backend)));
            let handles = TaskHandles { backend: Arc::clone(backend), observer, checker };
            state.running.insert(backend.id, handles);
        }
        state.removed.retain(EndedBackend::is_open);
        state.removed.extend(old.into_values().map(TaskHandles::end));
    }

    /// Ends all tasks. Returns the backends, including removed ones, for callers that wait until they are closed.
    pub(crate) fn end(&self) -> Vec<EndedBackend> {
        let State { running, removed } = std::mem::take(&mut *lock(&self.0));
        running.into_values().map(TaskHandles::end).chain(removed).collect()
    }
}

impl TaskHandles {
    /// Aborts the tasks.
    fn end(self) -> EndedBackend {
        let checker = self.checker.map(|(_, checker)| checker);
        let tasks: Vec<_> = [Some(self.observer), checker].into_iter().flatten().collect();
        for task in &tasks {
            task.abort();
        }
        EndedBackend { backend: Arc::downgrade(&self.backend), tasks }
    }
}

impl EndedBackend {
    /// Returns `true` if tasks or sessions of the backend may still be open.
    fn is_open(&self) -> bool {
        self.backend.upgrade().is_some() || !self.tasks.iter().all(JoinHandle::is_finished)
    }

    /// Waits until the tasks have ended and the sessions that are being closed are closed.
    pub(crate) async fn closed(self) {
        // The observer closes its session when it is dropped, so that one is counted only afterwards.
        join_all(self.tasks).await;
        if let Some(backend) = self.backend.upgrade() {
            backend.closed().await;
        }
    }
}

/// Returns the health check task for `checks`, reusing the existing one if its settings are equal.
fn following(
    known: Option<(Checks, JoinHandle<()>)>,
    checks: Option<Checks>,
    of: impl FnOnce() -> (BackendContext, Arc<BackendHandle>),
) -> Option<(Checks, JoinHandle<()>)> {
    match (known, checks) {
        (Some((known, task)), Some(checks)) if known.same(&checks) => Some((known, task)),
        (known, checks) => {
            if let Some((_, task)) = known {
                task.abort();
            }
            let checks = checks?;
            let (context, backend) = of();
            Some((checks, tokio::spawn(check(context, backend, checks))))
        }
    }
}
