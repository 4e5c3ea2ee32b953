//! Processing of the events that backends report.

use std::sync::{Arc, Weak};

use tokio::sync::mpsc;

use crate::backend::context::BackendEvent;
use crate::gateway_state::GatewayState;

/// Applies events until all senders are gone. The weak reference does not keep the state alive.
pub(crate) async fn apply_events(
    gateway: Weak<GatewayState>,
    mut events: mpsc::Receiver<BackendEvent>,
) {
    while let Some(event) = events.recv().await {
        let Some(gateway) = gateway.upgrade() else { return };
        match event {
            BackendEvent::CatalogChanged { applied } => {
                // Concurrent rebuilds are merged, so they must not wait for each other here.
                let gateway = Arc::clone(&gateway);
                tokio::spawn(async move {
                    gateway.rebuild().await;
                    // The backend may have been removed meanwhile.
                    _ = applied.send(());
                });
            }
            BackendEvent::CallerCatalogChanged { caller, changes } => {
                gateway.notify_caller(&caller, &changes);
            }
        }
    }
}
