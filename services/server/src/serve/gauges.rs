//! Feeds the metrics of the server from its own counters.

use std::sync::{Arc, Weak};
use std::time::SystemTime;

use vmcp_aggregate::status::SearchCounts;
use vmcp_breaker::CircuitState;
use vmcp_egress::Egress;
use vmcp_telemetry::metrics::names::BACKEND;
use vmcp_telemetry_export::Telemetry;

use crate::auth_server::AuthServerRuntime;
use crate::metrics;
use crate::routes::ServerState;

/// Registers the gauges of the server. They report 0 after `shared` is dropped.
pub(super) fn register(shared: &Arc<ServerState>, egress: &Egress) {
    let Some(telemetry) = shared.state.telemetry() else { return };
    let number = |metric, read: fn(&ServerState) -> u64| {
        let shared = Arc::downgrade(shared);
        telemetry.observe(metric, move || shared.upgrade().map_or(0, |shared| read(&shared)));
    };
    number(&metrics::SESSIONS, |shared| count(shared.state.gateway.counts().sessions));
    number(&metrics::PARKED_CALLS, |shared| count(shared.state.gateway.counts().parked_calls));
    number(&metrics::DROPPED_MESSAGES, |shared| shared.state.gateway.counts().dropped_messages);
    number(&metrics::DETACHED_CALLS, |shared| count(shared.state.gateway.counts().detached_calls));
    number(&metrics::DETACHED_CALLS_ENDED, |shared| {
        shared.state.gateway.counts().detached_calls_ended
    });
    number(&metrics::CONNECTIONS, |shared| count(shared.connections.count()));
    number(&metrics::CONNECTIONS_EVICTED, |shared| shared.connections.evictions());
    number(&metrics::BUFFERED_BYTES, |shared| count(shared.state.budget.counts().held));
    number(&metrics::BUFFERED_BYTES_LIMIT, |shared| count(shared.state.budget.counts().limit));
    number(&metrics::BUFFERED_BYTES_WAITING, |shared| count(shared.state.budget.counts().waiting));
    number(&metrics::BUFFERED_BYTES_REFUSED, |shared| shared.state.budget.counts().rejections);
    number(&metrics::AUDIT_DROPPED, |shared| {
        let reloadable = shared.reloadable.load();
        let counts =
            reloadable.audit_pipeline.as_ref().map(|audit_pipeline| audit_pipeline.log.counts());
        counts.map_or(0, |counts| counts.dropped + counts.failed)
    });
    issuer(shared, telemetry);
    peers(shared, telemetry);
    status_reports(shared, telemetry);
    let open = egress.clone();
    telemetry.observe(&metrics::POOL_CONNECTIONS, move || count(open.gauges().open));
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&metrics::CACHE_ENTRIES, metrics::CACHE_NAME, move |record| {
        let Some(shared) = watched.upgrade() else { return };
        shared.cache_entries().into_iter().for_each(|(kind, number)| record(kind, count(number)));
    });
    backends(shared, telemetry);
    session_storage(shared, telemetry);
    tool_search(shared, telemetry);
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(
        &metrics::WORKFLOW_RUNS_ACTIVE,
        metrics::WORKFLOW_STATUS,
        move |record| {
            let Some(shared) = watched.upgrade() else { return };
            let gateway = &shared.state.gateway;
            let (counts, stored) = (gateway.workflow_counts(), gateway.stored_runs());
            record("running", count(counts.running.saturating_sub(counts.waiting)));
            let suspended = stored.map_or(0, |stored| stored.suspended);
            record("input_required", count(counts.waiting + suspended));
        },
    );
}

/// Registers the state of the storage that replicas share, if there is one.
fn session_storage(shared: &Arc<ServerState>, telemetry: &Telemetry) {
    let Some(storage) = shared.state.session_storage.clone() else { return };
    telemetry.observe_each(
        &metrics::SESSION_STORAGE_UP,
        metrics::SESSION_STORAGE_PART,
        move |record| {
            storage.parts().into_iter().for_each(|(part, works)| record(part, works.into()));
        },
    );
}

/// Registers the numbers of connections and requests between replicas.
fn peers(shared: &Arc<ServerState>, telemetry: &Telemetry) {
    let Some(client) = shared.state.peers.clone() else { return };
    telemetry.observe_each(&metrics::PEER_CONNECTIONS, metrics::PEER_DIRECTION, move |record| {
        let counts = client.counts();
        record("outgoing", count(counts.outgoing));
        record("incoming", count(counts.incoming));
    });
    let watched = Arc::downgrade(shared);
    let labels = [metrics::PEER_REQUEST_KIND, metrics::PEER_REQUEST_OUTCOME];
    telemetry.observe_each_pair(&metrics::PEER_REQUESTS, labels, move |record| {
        let Some(shared) = watched.upgrade() else { return };
        for forwards in shared.state.gateway.forward_counts() {
            record([forwards.kind, forwards.outcome], forwards.requests);
        }
    });
}

/// Registers the progress of the reports in Kubernetes, if the server is a replica of a VirtualMCPServer.
fn status_reports(shared: &Arc<ServerState>, telemetry: &Telemetry) {
    if shared.state.cluster.is_none() {
        return;
    }
    let progress = |shared: &Weak<ServerState>| shared.upgrade()?.state.report_progress();
    let watched = Arc::downgrade(shared);
    telemetry.observe_optional(&metrics::REPORT_LEADER, move || {
        progress(&watched).map(|progress| progress.is_leader.into())
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_optional(&metrics::REPORT_LAST_SUCCESS, move || {
        let since = progress(&watched)?.last_success?.duration_since(SystemTime::UNIX_EPOCH);
        since.ok().map(|since| since.as_secs())
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&metrics::REPORTS, metrics::REPORT_OUTCOME, move |record| {
        let Some(progress) = progress(&watched) else { return };
        record("written", progress.written);
        record("failed", progress.failed);
    });
}

/// Registers the numbers of the tool search.
fn tool_search(shared: &Arc<ServerState>, telemetry: &Telemetry) {
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&metrics::TOOL_SEARCHES, metrics::SEARCH_MODE, move |record| {
        let Some(shared) = watched.upgrade() else { return };
        let SearchCounts { hybrid, semantic, keyword, fallback, .. } =
            shared.state.gateway.search_counts();
        for (mode, searches) in [
            ("hybrid", hybrid),
            ("semantic", semantic),
            ("keyword", keyword),
            ("fallback", fallback),
        ] {
            record(mode, searches);
        }
    });
    let number = |metric, read: fn(SearchCounts) -> u64| {
        let shared = Arc::downgrade(shared);
        let counts = move || shared.upgrade().map(|shared| shared.state.gateway.search_counts());
        telemetry.observe(metric, move || counts().map_or(0, read));
    };
    number(&metrics::SEARCH_BASELINE_TOKENS, |counts| counts.baseline_tokens);
    number(&metrics::SEARCH_RETURNED_TOKENS, |counts| counts.returned_tokens);
    let watched = Arc::downgrade(shared);
    telemetry.observe_optional(&metrics::EMBEDDING_SERVICE_UP, move || {
        let status = watched.upgrade()?.state.gateway.optimizer()?.embedder?;
        // Unknown before the first contact.
        let is_known = status.model.is_some() || status.outage.is_some();
        is_known.then(|| status.outage.is_none().into())
    });
}

/// Registers the gauges of each backend.
fn backends(shared: &Arc<ServerState>, telemetry: &Telemetry) {
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&metrics::BACKEND_HEALTHY, BACKEND, move |record| {
        each(&watched, |backend| {
            record(&backend.name, u64::from(backend.is_healthy()));
        });
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&metrics::HEALTH_CHANGES, BACKEND, move |record| {
        each(&watched, |backend| {
            let Some(checked) = &backend.checked else { return };
            record(&backend.name, checked.changes);
        });
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&metrics::CIRCUIT_STATE, BACKEND, move |record| {
        each(&watched, |backend| {
            let Some(breaker) = &backend.breaker else { return };
            record(
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
fn issuer(shared: &Arc<ServerState>, telemetry: &Telemetry) {
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&metrics::AUTH_HELD, metrics::AUTH_KIND, move |record| {
        let Some(issuer) = auth_server(&watched) else { return };
        issuer.memory_counts().into_iter().for_each(|(kind, held)| record(kind, count(held)));
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&metrics::AUTH_STORED, metrics::AUTH_KIND, move |record| {
        let Some(issuer) = auth_server(&watched) else { return };
        issuer.stored_counts().into_iter().for_each(|(kind, stored)| record(kind, count(stored)));
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&metrics::AUTH_STORE_UP, metrics::AUTH_STORAGE, move |record| {
        if let Some((kind, Some(is_up))) = auth_server(&watched).map(|issuer| issuer.store_status())
        {
            record(kind, is_up.into());
        }
    });
}

fn auth_server(shared: &Weak<ServerState>) -> Option<AuthServerRuntime> {
    shared.upgrade()?.reloadable.load().issuer().cloned()
}

fn each(shared: &Weak<ServerState>, register: impl FnMut(&vmcp_aggregate::status::BackendReport)) {
    if let Some(shared) = shared.upgrade() {
        shared.state.gateway.backends().iter().for_each(register);
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
