//! Numbers that the server keeps, among the metrics.

use std::sync::{Arc, Weak};

use vmcp_breaker::CircuitState;
use vmcp_egress::Egress;
use vmcp_telemetry::metrics::names;
use vmcp_telemetry_export::Telemetry;

use super::Issuer;
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
    number(&names::DETACHED_CALLS, |shared| count(shared.fixed.gateway.counts().detached_calls));
    number(&names::DETACHED_CALLS_ENDED, |shared| {
        shared.fixed.gateway.counts().detached_calls_ended
    });
    number(&names::CONNECTIONS, |shared| {
        count(shared.connections.load(std::sync::atomic::Ordering::Relaxed))
    });
    number(&names::CONNECTIONS_EVICTED, |shared| shared.limit.evictions());
    number(&names::BUFFERED_BYTES, |shared| count(shared.fixed.budget.counts().held));
    number(&names::BUFFERED_BYTES_LIMIT, |shared| count(shared.fixed.budget.counts().limit));
    number(&names::BUFFERED_BYTES_WAITING, |shared| count(shared.fixed.budget.counts().waiting));
    number(&names::BUFFERED_BYTES_REFUSED, |shared| shared.fixed.budget.counts().rejections);
    number(&names::AUDIT_DROPPED, |shared| {
        let stacks = shared.stacks.load();
        let counts = stacks.recording.as_ref().map(|recording| recording.log.counts());
        counts.map_or(0, |counts| counts.dropped + counts.failed)
    });
    issuer(shared, telemetry);
    let open = egress.clone();
    telemetry.observe(&names::POOL_CONNECTIONS, move || count(open.gauges().open));
    let keeping = Arc::downgrade(shared);
    telemetry.observe_each(&names::CACHE_ENTRIES, names::CACHE_NAME, move |tell| {
        let Some(shared) = keeping.upgrade() else { return };
        shared.held().into_iter().for_each(|(kind, number)| tell(kind, count(number)));
    });
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
                    CircuitState::Closed => 0,
                    CircuitState::HalfOpen => 1,
                    CircuitState::Open => 2,
                },
            );
        });
    });
}

/// Registers the gauges of the authorization server, if there is one.
fn issuer(shared: &Arc<Shared>, telemetry: &Telemetry) {
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::AUTH_HELD, names::AUTH_KIND, move |tell| {
        let Some(issuer) = running(&watched) else { return };
        issuer.held().into_iter().for_each(|(kind, held)| tell(kind, count(held)));
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::AUTH_STORED, names::AUTH_KIND, move |tell| {
        let Some(issuer) = running(&watched) else { return };
        issuer.stored().into_iter().for_each(|(kind, stored)| tell(kind, count(stored)));
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::AUTH_STORE_UP, names::AUTH_STORAGE, move |tell| {
        if let Some((kind, Some(is_up))) = running(&watched).map(|issuer| issuer.store()) {
            tell(kind, is_up.into());
        }
    });
}

fn running(shared: &Weak<Shared>) -> Option<Issuer> {
    shared.upgrade()?.stacks.load().issuer().cloned()
}

fn each(shared: &Weak<Shared>, show: impl FnMut(&vmcp_aggregate::status::BackendReport)) {
    if let Some(shared) = shared.upgrade() {
        shared.fixed.gateway.backends().iter().for_each(show);
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
