//! Tasks that observe the backends and check their health.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::task::AbortHandle;

use crate::backend::Link;
use crate::backend::check::check;
use crate::backend::observe::observe;
use crate::hub::Hub;
use crate::session::lock;
use crate::settings::Checks;

/// Observer and health check tasks of all backends.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Mutex<HashMap<Key, Watcher>>);

/// Backend, by the address of its handle.
type Key = usize;

#[derive(Debug)]
struct Watcher {
    /// Keeps the address from being reused.
    _link: Arc<Link>,
    observer: AbortHandle,
    /// Health check task with its settings.
    checker: Option<(Checks, AbortHandle)>,
}

impl Watchers {
    /// Runs tasks for these backends and ends those of others. Tasks of unchanged backends continue.
    pub(crate) fn follow(&self, hub: &Arc<Hub>, links: &[Arc<Link>], checks: Option<Checks>) {
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
            watchers.insert(key, Watcher { _link: Arc::clone(link), observer, checker });
        }
        old.into_values().for_each(Watcher::end);
    }

    /// Ends all tasks.
    pub(crate) fn end(&self) {
        lock(&self.0).drain().for_each(|(_, watcher)| watcher.end());
    }
}

impl Watcher {
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
    of: impl FnOnce() -> (Arc<Hub>, Arc<Link>),
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
