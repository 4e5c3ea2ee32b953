//! Backend health for `/status` and `/api/backends/health`.

use serde_json::{Map, Value, json};
use vmcp_aggregate::Gateway;
use vmcp_aggregate::status::{CheckError, HealthReport};
use vmcp_breaker::health::Health;

/// Returns the body of `/api/backends/health`: the number of backends by health, and each backend by name.
pub(super) fn health(gateway: &Gateway) -> Value {
    use Health::{Degraded, Ready, Unauthenticated, Unavailable, Unknown};
    let reports = gateway.backends();
    let count = |health| reports.iter().filter(|backend| backend.health() == health).count();
    let mut summary = Map::from_iter([("total".to_owned(), reports.len().into())]);
    for health in [Ready, Degraded, Unavailable, Unauthenticated, Unknown] {
        summary.insert(health.name().to_owned(), count(health).into());
    }
    let mut backends = Map::new();
    for backend in &reports {
        let mut entry = backend.checked.as_ref().map_or_else(|| json!({}), checked);
        entry["status"] = backend.health().name().into();
        entry["message"] = backend.problem().into();
        entry["circuit"] = backend.breaker.as_ref().map(circuit).into();
        entry["mcp_revision"] = backend.revision.into();
        entry["mcp_revisions"] = json!(backend.revisions);
        backends.insert(backend.name.clone(), entry);
    }
    let monitoring = reports.iter().all(|backend| backend.checked.is_some());
    json!({"monitoring_enabled": monitoring, "summary": summary, "backends": backends})
}

/// Returns the results of health checks.
pub(super) fn checked(checked: &HealthReport) -> Value {
    let HealthReport {
        health: _,
        consecutive_failures,
        since,
        last_check,
        next_check,
        last_error,
        changes,
    } = checked;
    json!({
        "consecutive_failures": consecutive_failures,
        "since": rfc3339(*since),
        "last_check": last_check.and_then(rfc3339),
        "next_check": next_check.and_then(rfc3339),
        "last_error": last_error.as_ref().map(|CheckError { kind, message, at }| {
            json!({"kind": kind, "message": message, "at": rfc3339(*at)})
        }),
        "changes": changes,
    })
}

/// Returns the state of a circuit, in the terms of the resource's status (seed section 2.10).
pub(super) fn circuit(breaker: &vmcp_breaker::CircuitHandle) -> Value {
    let vmcp_breaker::CircuitStatus { state, failures, last_changed } = breaker.status();
    json!({
        "state": state.name(),
        "failures": failures,
        "retry_in_seconds": breaker.retry_in().map(|wait| wait.as_secs_f64().ceil()),
        "last_changed": last_changed.and_then(rfc3339),
    })
}

/// Formats a point in time by RFC 3339; `None` for times out of range.
pub(super) fn rfc3339(at: std::time::SystemTime) -> Option<String> {
    jiff::Timestamp::try_from(at).ok().map(|at| format!("{at:.0}"))
}
