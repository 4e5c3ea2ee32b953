//! Outcome of reloads, and status of the discovery of backends, for `/status`.

use std::sync::Mutex;

use serde_json::{Value, json};
use vmcp_core::lock;

/// Outcome of the reloads so far. Only the watching task writes; `/status` reads.
#[derive(Debug, Default)]
pub(crate) struct Reloads(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    applied: u64,
    rejected: u64,
    last_error: Option<String>,
    discovery: Option<DiscoveryStatus>,
}

/// Status of the discovery of backends in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiscoveryStatus {
    /// `true` if all resources were read once.
    pub(crate) is_synchronized: bool,
    /// Reason why the backends do not follow the resources.
    pub(crate) problem: Option<String>,
}

impl Reloads {
    /// Sets the status of the discovery; `None` if backends are not discovered.
    pub(crate) fn set_discovery(&self, status: Option<DiscoveryStatus>) {
        lock(&self.0).discovery = status;
    }

    pub(crate) fn to_json(&self) -> Value {
        let state = lock(&self.0);
        json!({
            "reloads": state.applied,
            "refused_reloads": state.rejected,
            "last_error": state.last_error,
            "discovery": state.discovery.as_ref().map(
                |DiscoveryStatus { is_synchronized, problem }| json!({"synchronized": is_synchronized, "problem": problem})
            ),
        })
    }

    /// Logs and counts the outcome of a reload. A retry that fails with the same error is neither logged nor counted.
    pub(crate) fn report(&self, outcome: Result<String, String>, is_retry: bool) {
        match &outcome {
            Ok(changes) => tracing::info!(changes, "configuration reloaded"),
            Err(error) if is_retry && self.is_last(error) => {
                tracing::debug!("failed to reload the configuration again:\n{error}");
                return;
            }
            Err(error) => tracing::error!(
                "failed to reload the configuration; the last valid one runs on:\n{error}"
            ),
        }
        self.record(outcome.map(|_| ()));
    }

    /// Returns `true` if the last reload failed with this message.
    fn is_last(&self, error: &str) -> bool {
        let state = lock(&self.0);
        state.last_error.as_deref() == Some(error)
    }

    fn record(&self, outcome: Result<(), String>) {
        let mut state = lock(&self.0);
        match outcome {
            Ok(()) => {
                state.applied += 1;
                state.last_error = None;
            }
            Err(error) => {
                state.rejected += 1;
                state.last_error = Some(error);
            }
        }
    }
}
