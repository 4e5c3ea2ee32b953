//! Latest request of the owner of a task.

use std::sync::Arc;

use tokio::sync::watch;

use super::CompositeCall;
use crate::expiry::{is_expired, wait_for_revocation};

/// Latest request of the owner about a task. The steps that follow use its token, permissions and configuration.
pub(super) struct LatestCall(watch::Sender<CompositeCall>);

impl LatestCall {
    pub(super) fn new(composite: CompositeCall) -> Self {
        Self(watch::Sender::new(composite))
    }

    /// Returns the owner's latest request.
    pub(super) fn get(&self) -> CompositeCall {
        self.0.borrow().clone()
    }

    /// Returns the owner's latest request, after waiting for one whose token is valid.
    pub(super) async fn authorized(&self) -> CompositeCall {
        let mut latest = self.0.subscribe();
        loop {
            let composite = latest.borrow_and_update().clone();
            let clock = &composite.call.context.workflows.clock;
            if !is_expired(composite.call.caller.identity(), clock) {
                return composite;
            }
            if latest.changed().await.is_err() {
                // The sender is in `self`.
                return composite;
            }
        }
    }

    /// Waits until the session of the owner's latest request is revoked.
    pub(super) async fn revoked(&self) {
        let mut latest = self.0.subscribe();
        loop {
            let composite = latest.borrow_and_update().clone();
            tokio::select! {
                () = wait_for_revocation(composite.call.caller.identity()) => return,
                Ok(()) = latest.changed() => {}
            }
        }
    }

    /// Replaces the owner's latest request. The run keeps the tools of its own definition.
    pub(super) fn replace(&self, composite: &CompositeCall) {
        self.0.send_modify(|latest| {
            let is_same = composite.composite().workflow == latest.composite().workflow;
            let catalog = if is_same { &composite.catalog } else { &latest.catalog };
            *latest = CompositeCall {
                catalog: Arc::clone(catalog),
                arguments: latest.arguments.clone(),
                ..composite.clone()
            };
        });
    }
}
