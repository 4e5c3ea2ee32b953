//! Conditions of the backends.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use vmcp_api::{
    condition::{ConditionReason, set_condition},
    virtual_mcp_server::{
        BackendStatus, BackendsDegraded, BackendsDiscovered, BackendsReady, DiscoveredBackend,
    },
};

/// Names of backends in one message.
const MAX_NAMES: usize = 20;

/// Returns whether a type of condition is one of the pods.
pub(crate) fn is_own(type_: &str) -> bool {
    [BackendsReady::TYPE, BackendsDiscovered::TYPE, BackendsDegraded::TYPE].contains(&type_)
}

/// Returns the conditions of the backends, sorted by type. Those whose status is as at present keep their time.
pub(crate) fn conditions(
    backends: &[DiscoveredBackend],
    present: &[Condition],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions: Vec<Condition> =
        present.iter().filter(|one| is_own(&one.type_)).cloned().collect();
    // In whole seconds, as the API server stores it.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let count = backends.len();
    let discovered = BackendsDiscovered::Discovered;
    let message = format!("{count} backends");
    set_condition(&mut conditions, discovered.condition(message, generation, now));
    let (reason, message) = readiness(backends);
    set_condition(&mut conditions, reason.condition(message, generation, now));
    let degraded = names(backends, |status| status == BackendStatus::Degraded);
    if let Some(degraded) = degraded {
        let message = format!("degraded: {degraded}");
        let reason = BackendsDegraded::Degraded;
        set_condition(&mut conditions, reason.condition(message, generation, now));
    } else {
        conditions.retain(|condition| condition.type_ != BackendsDegraded::TYPE);
    }
    conditions
}

fn readiness(backends: &[DiscoveredBackend]) -> (BackendsReady, String) {
    let total = backends.len();
    let count = |is: fn(BackendStatus) -> bool| {
        backends.iter().filter(|backend| is(backend.status.unwrap_or_default())).count()
    };
    let routable = count(BackendStatus::is_routable);
    let unknown = count(|status| status == BackendStatus::Unknown);
    if routable == total {
        return (BackendsReady::AllRoutable, format!("requests reach {total} of {total} backends"));
    }
    let is_unhealthy =
        |status: BackendStatus| !status.is_routable() && status != BackendStatus::Unknown;
    let Some(unhealthy) = names(backends, is_unhealthy) else {
        let message = format!("{unknown} of {total} backends were not checked yet");
        return (BackendsReady::Pending, message);
    };
    let reason =
        if routable == 0 { BackendsReady::NoneRoutable } else { BackendsReady::SomeUnhealthy };
    (reason, format!("requests reach {routable} of {total} backends, but not {unhealthy}"))
}

/// Returns the names of backends with such a health, or `None` without one.
fn names(backends: &[DiscoveredBackend], is: impl Fn(BackendStatus) -> bool) -> Option<String> {
    let found: Vec<&str> = backends
        .iter()
        .filter(|backend| is(backend.status.unwrap_or_default()))
        .map(|backend| backend.name.as_str())
        .collect();
    let (first, others) = found.split_at(found.len().min(MAX_NAMES));
    let text = first.join(", ");
    match (first.len(), others.len()) {
        (0, _) => None,
        (_, 0) => Some(text),
        (_, more) => Some(format!("{text} and {more} more")),
    }
}
