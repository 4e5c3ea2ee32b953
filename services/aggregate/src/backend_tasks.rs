//! Tasks that observe the backends and check their health.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::task::AbortHandle;

use crate::backend::BackendHandle;
use crate::backend::health::check::check;
use crate::backend::observe::observe;
use crate::gateway_state::GatewayState;
use crate::settings::Checks;
use crate::sync::lock;

/// Observer and health check tasks of all backends.
#[derive(Debug, Default)]
pub(crate) struct BackendTasks(Mutex<HashMap<Key, TaskHandles>>);

/// Backend, by the address of its handle.
type Key = usize;

#[derive(Debug)]
struct TaskHandles {
    /// Keeps the address from being reused.
    _link: Arc<BackendHandle>,
    observer: AbortHandle,
    /// Health check task with its settings.
    checker: Option<(Checks, AbortHandle)>,
}

impl BackendTasks {
    /// Runs tasks for these backends and ends those of others. Tasks of unchanged backends continue.
    pub(crate) fn follow(
        &self,
        gateway: &Arc<GatewayState>,
        backends: &[Arc<BackendHandle>],
        checks: Option<Checks>,
    ) {
        let mut watchers = lock(&self.0);
        let mut old = std::mem::take(&mut *watchers);
        for backend in backends {
            let key = Arc::as_ptr(backend) as Key;
            let known = old.remove(&key);
            backend.health.set_threshold(checks.map(|checks| checks.unhealthy_threshold()));
            let (observer, checker) = if let Some(watcher) = known {
                (watcher.observer, watcher.checker)
            } else {
                let observing = observe(Arc::clone(gateway), Arc::clone(backend));
                (tokio::spawn(observing).abort_handle(), None)
            };
            let checker = following(checker, checks, || (Arc::clone(gateway), Arc::clone(backend)));
            watchers.insert(key, TaskHandles { _link: Arc::clone(backend), observer, checker });
        }
        old.into_values().for_each(TaskHandles::end);
    }

    /// Ends all tasks.
    pub(crate) fn end(&self) {
        lock(&self.0).drain().for_each(|(_, watcher)| watcher.end());
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
    of: impl FnOnce() -> (Arc<GatewayState>, Arc<BackendHandle>),
) -> Option<(Checks, AbortHandle)> {
    match (known, checks) {
        (Some((known, task)), Some(checks)) if known.same(&checks) => Some((known, task)),
        (known, checks) => {
            if let Some((_, task)) = known {
                task.abort();
            }
            let checks = checks?;
            let (gateway, backend) = of();
            Some((checks, tokio::spawn(check(gateway, backend, checks)).abort_handle()))
        }
    }
}
