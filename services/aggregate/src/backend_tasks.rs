//! Tasks that observe the backends and check their health.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::task::AbortHandle;

use crate::backend::BackendHandle;
use crate::backend::health::check::check;
use crate::backend::observe::observe;
use crate::gateway_state::GatewayState;
use crate::session::lock;
use crate::settings::Checks;

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
        hub: &Arc<GatewayState>,
        links: &[Arc<BackendHandle>],
        checks: Option<Checks>,
    ) {
        let mut watchers = lock(&self.0);
        let mut old = std::mem::take(&mut *watchers);
        for link in links {
            let key = Arc::as_ptr(link) as Key;
            let known = old.remove(&key);
            link.vitals.check_by(checks.map(|checks| checks.unhealthy_threshold()));
            let (observer, checker) = if let Some(watcher) = known {
                (watcher.observer, watcher.checker)
            } else {
                let observing = observe(Arc::clone(hub), Arc::clone(link));
                (tokio::spawn(observing).abort_handle(), None)
            };
            let checker = following(checker, checks, || (Arc::clone(hub), Arc::clone(link)));
            watchers.insert(key, TaskHandles { _link: Arc::clone(link), observer, checker });
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
            let (hub, link) = of();
            Some((checks, tokio::spawn(check(hub, link, checks)).abort_handle()))
        }
    }
}
