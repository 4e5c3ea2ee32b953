//! The fields of a status that the pods have.

use std::{collections::BTreeMap, time::SystemTime};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};
use vmcp_api::virtual_mcp_server::{BackendStatus, DiscoveredBackend};

use crate::{
    conditions,
    message::message,
    report::{BackendReport, Circuit, Report},
};

/// The fields of a status that the pods have, as they are read and as they are applied.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) backend_count: Option<i32>,
    #[serde(default)]
    pub(crate) conditions: Vec<Condition>,
    #[serde(default)]
    pub(crate) discovered_backends: Vec<DiscoveredBackend>,
}

// === impl PodStatus ===

impl PodStatus {
    /// Returns the status for a report. Conditions whose status is as at present keep their time.
    pub(crate) fn new(
        report: Report,
        present: &Self,
        generation: Option<i64>,
        now: Timestamp,
    ) -> Self {
        let Report { backends } = report;
        let by_name: BTreeMap<String, DiscoveredBackend> =
            backends.into_iter().map(|one| (one.name.clone(), discovered(one))).collect();
        let discovered_backends: Vec<_> = by_name.into_values().collect();
        let is_routable =
            |one: &&DiscoveredBackend| one.status.is_some_and(BackendStatus::is_routable);
        let routable = discovered_backends.iter().filter(is_routable).count();
        let conditions =
            conditions::conditions(&discovered_backends, &present.conditions, generation, now);
        Self {
            backend_count: Some(i32::try_from(routable).unwrap_or(i32::MAX)),
            conditions,
            discovered_backends,
        }
    }

    /// Leaves the conditions of the operator out, and sorts lists.
    pub(crate) fn into_own(mut self) -> Self {
        self.conditions.retain(|condition| conditions::is_own(&condition.type_));
        self.conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        self.discovered_backends.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }
}

fn discovered(backend: BackendReport) -> DiscoveredBackend {
    let message = message(&backend);
    let BackendReport {
        name,
        url,
        status,
        cause: _,
        auth_type,
        auth_config,
        last_check,
        consecutive_failures,
        circuit,
    } = backend;
    let (circuit_breaker_state, circuit_last_changed) =
        circuit.map(|Circuit { state, last_changed }| (state, last_changed.and_then(time))).unzip();
    DiscoveredBackend {
        name,
        url: text(url),
        status: Some(status),
        auth_type: text(auth_type),
        auth_config_ref: text(auth_config),
        message: Some(message),
        last_health_check: last_check.and_then(time),
        consecutive_failures: Some(i32::try_from(consecutive_failures).unwrap_or(i32::MAX)),
        circuit_breaker_state,
        circuit_last_changed: circuit_last_changed.flatten(),
    }
}

fn text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Returns a time in whole seconds, as the API server stores it.
fn time(at: SystemTime) -> Option<Time> {
    let at = Timestamp::try_from(at).ok()?;
    Timestamp::from_second(at.as_second()).ok().map(Time)
}
