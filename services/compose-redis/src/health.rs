//! Health of the store, as its steps find it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use vmcp_compose::{RunId, StoreError};
use vmcp_redis::Error;

/// Health of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreHealth {
    /// The last step succeeded.
    Available,
    /// Redis rejected the last step, or did not respond.
    Unavailable(Error),
}

/// Errors of the steps. Each change is logged once.
#[derive(Debug, Default)]
pub(crate) struct Health {
    error: Mutex<Option<Error>>,
    /// `true` once an unreadable record was logged.
    names_corrupt_record: AtomicBool,
}

impl Health {
    pub(crate) fn current(&self) -> StoreHealth {
        let error = vmcp_core::lock(&self.error).clone();
        error.map_or(StoreHealth::Available, StoreHealth::Unavailable)
    }

    pub(crate) fn record_success(&self) {
        if vmcp_core::lock(&self.error).take().is_some() {
            tracing::info!("workflow store available");
        }
    }

    /// Records an error and returns the one that callers see.
    pub(crate) fn record_error(&self, error: Error) -> StoreError {
        if let Error::CommandFailed { code, .. } = &error
            && &**code == "WRONGTYPE"
        {
            tracing::error!(%error, "workflow store has a key of another type");
            return StoreError::Corrupt;
        }
        let mut current = vmcp_core::lock(&self.error);
        if current.is_none() {
            tracing::warn!(%error, "workflow store unavailable");
        }
        *current = Some(error);
        StoreError::Unavailable
    }

    /// Logs the first record that no key of the ring opens, or whose content has another form.
    pub(crate) fn record_corrupt(&self, run: &RunId) -> StoreError {
        if !self.names_corrupt_record.swap(true, Ordering::Relaxed) {
            tracing::error!(
                %run,
                "failed to open a stored run: its key is not in the ring, or it has another form"
            );
        }
        StoreError::Corrupt
    }
}
