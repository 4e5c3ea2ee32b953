//! Tasks that observe the backends and check their health.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;

use crate::backend::context::BackendContext;
use crate::backend::health::check::check;
use crate::backend::observe::observe;
use crate::backend::{BackendHandle, BackendId};
use crate::settings::Checks;
use crate::sync::lock;

/// Observer and health check tasks of all backends.
#[derive(Debug, Default)]
pub(crate) struct BackendTasks(Mutex<HashMap<BackendId, TaskHandles>>);

#[derive(Debug)]
struct TaskHandles {
    observer: JoinHandle<()>,
    /// Health check task with its settings.
    checker: Option<(Checks, JoinHandle<()>)>,
}

impl BackendTasks {
    /// Runs tasks for these backends and ends those of others. Tasks of unchanged backends continue.
    pub(crate) fn follow(
        &self,
        context: &BackendContext,
        backends: &[Arc<BackendHandle>],
        checks: Option<Checks>,
    ) {
        let mut tasks = lock(&self.0);
        let mut old = std::mem::take(&mut *tasks);
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
            tasks.insert(backend.id, TaskHandles { observer, checker });
        }
        for handles in old.into_values() {
            handles.end();
        }
    }

    /// Ends all tasks. Returns them, for callers that wait until they have ended.
    pub(crate) fn end(&self) -> Vec<JoinHandle<()>> {
        lock(&self.0).drain().flat_map(|(_, handles)| handles.end()).collect()
    }
}

impl TaskHandles {
    /// Aborts the tasks and returns them.
    fn end(self) -> Vec<JoinHandle<()>> {
        let checker = self.checker.map(|(_, checker)| checker);
        let tasks: Vec<_> = [Some(self.observer), checker].into_iter().flatten().collect();
        for task in &tasks {
            task.abort();
        }
        tasks
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
