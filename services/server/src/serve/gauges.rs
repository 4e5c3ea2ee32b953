//! Numbers that the server keeps, among the metrics.

use std::sync::{Arc, Weak};

use vmcp_breaker::State;
use vmcp_egress::Egress;
use vmcp_metrics::names;

use crate::routes::Shared;

/// Shows what `shared` counts, for as long as that is there.
pub(super) fn show(shared: &Arc<Shared>, egress: &Egress) {
    let Some(telemetry) = &shared.fixed.telemetry else { return };
    let number = |metric, read: fn(&Shared) -> u64| {
        let shared = Arc::downgrade(shared);
        telemetry.observe(metric, move || shared.upgrade().map_or(0, |shared| read(&shared)));
    };
    number(&names::SESSIONS, |shared| count(shared.fixed.gateway.counts().sessions));
    number(&names::PARKED_CALLS, |shared| count(shared.fixed.gateway.counts().parked_calls));
    number(&names::DROPPED_MESSAGES, |shared| shared.fixed.gateway.counts().dropped_messages);
    number(&names::CONNECTIONS, |shared| {
        count(shared.connections.load(std::sync::atomic::Ordering::Relaxed))
    });
    number(&names::AUDIT_DROPPED, |shared| {
        let stacks = shared.stacks.load();
        let counts = stacks.recording.as_ref().map(|recording| recording.log.counts());
        counts.map_or(0, |counts| counts.dropped + counts.failed)
    });
    let open = egress.clone();
    telemetry.observe(&names::POOL_CONNECTIONS, move || count(open.gauges().open));
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::BACKEND_HEALTHY, names::BACKEND, move |tell| {
        each(&watched, |backend| {
            tell(&backend.name, u64::from(backend.is_healthy()));
        });
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::HEALTH_CHANGES, names::BACKEND, move |tell| {
        each(&watched, |backend| {
            let Some(checked) = &backend.checked else { return };
            tell(&backend.name, checked.changes);
        });
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::CIRCUIT_STATE, names::BACKEND, move |tell| {
        each(&watched, |backend| {
            let Some(breaker) = &backend.breaker else { return };
            tell(
                &backend.name,
                match breaker.state() {
                    State::Closed => 0,
                    State::HalfOpen => 1,
                    State::Open => 2,
                },
            );
        });
    });
}

fn each(shared: &Weak<Shared>, show: impl FnMut(&vmcp_aggregate::status::BackendReport)) {
    if let Some(shared) = shared.upgrade() {
        shared.fixed.gateway.backends().iter().for_each(show);
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
