//! Tasks that observe the backends and check their health.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::task::AbortHandle;

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
    observer: AbortHandle,
    /// Health check task with its settings.
    checker: Option<(Checks, AbortHandle)>,
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
                (tokio::spawn(observing).abort_handle(), None)
            };
            let checker = following(checker, checks, || (context.clone(), Arc::clone(backend)));
            tasks.insert(backend.id, TaskHandles { observer, checker });
        }
        old.into_values().for_each(TaskHandles::end);
    }

    /// Ends all tasks.
    pub(crate) fn end(&self) {
        lock(&self.0).drain().for_each(|(_, handles)| handles.end());
    }
}

impl TaskHandles {
    fn end(self) {
        self.observer.abort();
        if let Some((_, checker)) = self.checker {
            checker.abort();
        }
    }
}

/// Returns the health check task for `checks`, reusing the existing one if its settings are equal.
fn following(
    known: Option<(Checks, AbortHandle)>,
    checks: Option<Checks>,
    of: impl FnOnce() -> (BackendContext, Arc<BackendHandle>),
) -> Option<(Checks, AbortHandle)> {
    match (known, checks) {
        (Some((known, task)), Some(checks)) if known.same(&checks) => Some((known, task)),
        (known, checks) => {
            if let Some((_, task)) = known {
                task.abort();
            }
            let checks = checks?;
            let (context, backend) = of();
            Some((checks, tokio::spawn(check(context, backend, checks)).abort_handle()))
        }
    }
}
