//! Periodic checks of the authorization server's store and providers.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use vmcp_auth_store::{Counts, Store};

use crate::parts::{ObservedProvider, StorageStatus};

/// Interval of store checks.
const STORE_CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// Time limit of a store check.
const STORE_CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of provider checks, and the shorter one while a provider fails.
const PROVIDER_CHECK_INTERVAL: Duration = Duration::from_mins(5);
const PROVIDER_RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Result of the last store check. Only the watching task replaces it.
#[derive(Debug, Default)]
pub(super) struct StoreMonitor(ArcSwap<StoreStatus>);

#[derive(Debug, Default)]
struct StoreStatus {
    counts: Counts,
    /// `None` before the first check.
    result: Option<Result<(), String>>,
}

/// Handle that aborts its task when dropped.
#[derive(Debug)]
pub(super) struct AbortOnDrop(AbortHandle);

impl StoreMonitor {
    /// Returns the counts of the last successful check.
    pub(super) fn counts(&self) -> Counts {
        self.0.load().counts
    }

    /// Returns `true` if the last check succeeded; `None` before the first one.
    pub(super) fn is_up(&self) -> Option<bool> {
        self.0.load().result.as_ref().map(Result::is_ok)
    }

    pub(super) fn stored(&self, kind: &'static str) -> StorageStatus {
        StorageStatus::new(kind, self.0.load().result.clone())
    }

    async fn check(&self, store: &dyn Store) {
        let answer = timeout(STORE_CHECK_TIMEOUT, store.counts()).await;
        let (counts, result) = match answer {
            Ok(Ok(counts)) => (counts, Ok(())),
            Ok(Err(error)) => (self.counts(), Err(error.to_string())),
            Err(_) => (
                self.counts(),
                Err(format!("no answer within {} s", STORE_CHECK_TIMEOUT.as_secs())),
            ),
        };
        self.0.store(Arc::new(StoreStatus { counts, result: Some(result) }));
    }
}

impl AbortOnDrop {
    /// Starts the periodic check of the store.
    pub(super) fn watch_store(monitor: &Arc<StoreMonitor>, store: &Arc<dyn Store>) -> Self {
        let (monitor, store) = (Arc::clone(monitor), Arc::clone(store));
        Self::spawn(async move {
            loop {
                monitor.check(&*store).await;
                sleep(STORE_CHECK_INTERVAL).await;
            }
        })
    }

    /// Starts the periodic check of the providers.
    pub(super) fn watch_providers(providers: Vec<Arc<ObservedProvider>>) -> Self {
        Self::spawn(async move {
            loop {
                let checks = providers.iter().map(|provider| provider.check());
                futures_util::future::join_all(checks).await;
                let mut result = providers.iter().map(|provider| provider.report());
                let is_unavailable = result.any(|result| result.status == "unavailable");
                sleep(if is_unavailable {
                    PROVIDER_RETRY_INTERVAL
                } else {
                    PROVIDER_CHECK_INTERVAL
                })
                .await;
            }
        })
    }

    pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work).abort_handle())
    }
}

impl Drop for AbortOnDrop {
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
        let monitor = StoreMonitor::default();
        assert_eq!((monitor.is_up(), monitor.stored("memory").status), (None, "unknown"));
        monitor.check(&MemoryStore::new(Limits::default(), Clock::system())).await;
        assert_eq!((monitor.is_up(), monitor.stored("memory").status), (Some(true), "ready"));
        assert_eq!(monitor.counts(), Counts::default());
    }
}
