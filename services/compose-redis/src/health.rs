//! State of the store, as operators see it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use vmcp_compose::{RunId, StoreError};
use vmcp_core::{Clock, lock};
use vmcp_redis::Error;

use crate::scripts::StepScript;

/// State of the store, as its last steps found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreState {
    /// `true` if steps succeed.
    pub is_connected: bool,
    /// Time of the last change of `is_connected`.
    pub since: SystemTime,
    /// Last error. Contains no secret.
    pub last_error: Option<Arc<str>>,
}

/// Results of the steps. Each change of the state is logged once.
#[derive(Debug)]
pub(crate) struct Health {
    inner: Mutex<Inner>,
    clock: Clock,
    /// `true` once an unreadable record was logged.
    names_corrupt_record: AtomicBool,
}

#[derive(Debug)]
struct Inner {
    /// `true` if Redis rejected a step that takes memory: the success of another one does not disprove that.
    is_rejecting: bool,
    state: StoreState,
}

impl Health {
    pub(crate) fn new(clock: Clock) -> Self {
        let state = StoreState { is_connected: true, since: clock.now(), last_error: None };
        let inner = Mutex::new(Inner { is_rejecting: false, state });
        Self { inner, clock, names_corrupt_record: AtomicBool::new(false) }
    }

    pub(crate) fn state(&self) -> StoreState {
        lock(&self.inner).state.clone()
    }

    pub(crate) fn record_success(&self, script: &StepScript) {
        let mut inner = lock(&self.inner);
        if inner.state.is_connected || inner.is_rejecting && !script.takes_memory {
            return;
        }
        inner.is_rejecting = false;
        inner.state.is_connected = true;
        inner.state.since = self.clock.now();
        drop(inner);
        tracing::info!("workflow store available");
    }

    /// Records an error and returns the one that callers see.
    pub(crate) fn record_error(&self, script: &StepScript, error: &Error) -> StoreError {
        let is_rejection = matches!(error, Error::CommandFailed { .. });
        if let Error::CommandFailed { code, .. } = error
            && &**code == "WRONGTYPE"
        {
            tracing::error!(%error, "workflow store has a key of another type");
            return StoreError::Corrupt;
        }
        lock(&self.inner).is_rejecting |= is_rejection && script.takes_memory;
        self.record_outage(error);
        StoreError::Unavailable
    }

    /// Records that the store cannot be used now.
    pub(crate) fn record_outage(&self, error: &impl fmt::Display) {
        let mut inner = lock(&self.inner);
        inner.state.last_error = Some(error.to_string().into());
        if inner.state.is_connected {
            inner.state.is_connected = false;
            inner.state.since = self.clock.now();
            drop(inner);
            tracing::warn!(%error, "workflow store unavailable");
        }
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
