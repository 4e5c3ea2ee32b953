//! Processing of the events that backends report.

use std::sync::Weak;

use tokio::sync::mpsc;

use crate::backend::context::BackendEvent;
use crate::catalog_store::CatalogStore;
use crate::notify::notifier::ClientNotifier;

/// Applies events until all senders are gone. The weak reference does not keep the store, which has a sender, alive.
pub(super) async fn apply_events(
    catalogs: Weak<CatalogStore>,
    notifier: ClientNotifier,
    mut events: mpsc::Receiver<BackendEvent>,
) {
    while let Some(event) = events.recv().await {
        match event {
            BackendEvent::CatalogChanged { applied } => {
                let Some(catalogs) = catalogs.upgrade() else { return };
                let notifier = notifier.clone();
                // A task of its own: concurrent rebuilds are merged, so they must not wait for each other here, and the catalog
                // is completed even if the backend's task has ended.
                tokio::spawn(async move {
                    catalogs.rebuild(|changes| notifier.notify_clients(changes)).await;
                    // The backend may have been removed meanwhile.
                    _ = applied.send(());
                });
            }
            BackendEvent::CallerCatalogChanged { caller, changes } => {
                notifier.notify_caller(&caller, &changes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::oneshot;
    use vmcp_core::{Clock, Generation};

    use super::*;
    use crate::notify::listeners::Listeners;
    use crate::session::store::SessionStore;
    use crate::settings::{PartialFailure, Rules, Settings};

    #[tokio::test]
    async fn catalog_is_built_after_backend_task_ends() {
        let settings = Settings {
            name: String::new(),
            version: String::new(),
            backends: Vec::new(),
            rules: Rules::default(),
            partial_failure: PartialFailure::BestEffort,
            checks: None,
            optimizer: None,
        };
        let (catalogs, _) = CatalogStore::new(settings, None, Clock::system());
        let first = catalogs.snapshot().catalog(Generation::Stateful).serial.refer();
        let sessions = SessionStore::new(1, Duration::from_secs(1), Duration::from_secs(1));
        let notifier =
            ClientNotifier { sessions: Arc::new(sessions), listeners: Arc::new(Listeners::new(1)) };
        let (sender, events) = mpsc::channel(2);
        let (abandoned, waiting) = oneshot::channel();
        drop(waiting);
        sender.send(BackendEvent::CatalogChanged { applied: abandoned }).await.unwrap();
        drop(sender);
        apply_events(Arc::downgrade(&catalogs), notifier, events).await;
        let built = async {
            while catalogs.snapshot().catalog(Generation::Stateful).serial.refer() == first {
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(10), built).await.is_ok());
    }
}
