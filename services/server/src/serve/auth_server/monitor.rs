//! Periodic checks of the authorization server's store and providers.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use vmcp_auth_store::{Counts, Store};

use crate::parts::{Asked, Stored};

/// Interval of store checks.
const LOOK: Duration = Duration::from_secs(15);

/// Time limit of a store check.
const PATIENCE: Duration = Duration::from_secs(5);

/// Interval of provider checks, and the shorter one while a provider fails.
const CHECK: Duration = Duration::from_secs(300);
const CHECK_AGAIN: Duration = Duration::from_secs(30);

/// Result of the last store check.
#[derive(Debug, Default)]
pub(super) struct Seen(ArcSwap<Look>);

#[derive(Debug, Default)]
struct Look {
    counts: Counts,
    /// `None` before the first check.
    found: Option<Result<(), String>>,
}

/// Handle that aborts its task when dropped.
#[derive(Debug)]
pub(super) struct Task(AbortHandle);

impl Seen {
    /// Returns the counts of the last successful check.
    pub(super) fn counts(&self) -> Counts {
        self.0.load().counts
    }

    /// Returns `true` if the last check succeeded; `None` before the first one.
    pub(super) fn is_up(&self) -> Option<bool> {
        self.0.load().found.as_ref().map(Result::is_ok)
    }

    pub(super) fn stored(&self, kind: &'static str) -> Stored {
        Stored::new(kind, self.0.load().found.clone())
    }

    async fn look(&self, store: &dyn Store) {
        let answer = timeout(PATIENCE, store.counts()).await;
        let (counts, found) = match answer {
            Ok(Ok(counts)) => (counts, Ok(())),
            Ok(Err(error)) => (self.counts(), Err(error.to_string())),
            Err(_) => (self.counts(), Err(format!("no answer within {} s", PATIENCE.as_secs()))),
        };
        self.0.store(Arc::new(Look { counts, found: Some(found) }));
    }
}

impl Task {
    /// Starts the periodic check of the store.
    pub(super) fn of_store(seen: &Arc<Seen>, store: &Arc<dyn Store>) -> Self {
        let (seen, store) = (Arc::clone(seen), Arc::clone(store));
        Self::spawn(async move {
            loop {
                seen.look(&*store).await;
                sleep(LOOK).await;
            }
        })
    }

    /// Starts the periodic check of the providers.
    pub(super) fn of_providers(providers: Vec<Arc<Asked>>) -> Self {
        Self::spawn(async move {
            loop {
                let checks = providers.iter().map(|provider| provider.check());
                futures_util::future::join_all(checks).await;
                let mut found = providers.iter().map(|provider| provider.found());
                let away = found.any(|found| found.status == "unavailable");
                sleep(if away { CHECK_AGAIN } else { CHECK }).await;
            }
        })
    }

    pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use vmcp_auth_store::{Limits, MemoryStore};
    use vmcp_core::Clock;

    use super::*;

    #[tokio::test]
    async fn reports_store_ready_and_counted_after_poll() {
        let seen = Seen::default();
        assert_eq!((seen.is_up(), seen.stored("memory").status), (None, "unknown"));
        seen.look(&MemoryStore::new(Limits::default(), Clock::system())).await;
        assert_eq!((seen.is_up(), seen.stored("memory").status), (Some(true), "ready"));
        assert_eq!(seen.counts(), Counts::default());
    }
}
