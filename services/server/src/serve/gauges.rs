//! Numbers that the server keeps, among the metrics.

use std::sync::{Arc, Weak};

use vmcp_aggregate::status::SearchCounts;
use vmcp_breaker::CircuitState;
use vmcp_egress::Egress;
use vmcp_telemetry::metrics::names::{self, Metric, MetricKind};
use vmcp_telemetry_export::Telemetry;

use crate::auth_server::AuthServerRuntime;
use crate::routes::ServerState;

/// Registers the gauges of the server. They report 0 after `shared` is dropped.
pub(super) fn register(shared: &Arc<ServerState>, egress: &Egress) {
    let Some(telemetry) = shared.state.telemetry() else { return };
    let number = |metric, read: fn(&ServerState) -> u64| {
        let shared = Arc::downgrade(shared);
        telemetry.observe(metric, move || shared.upgrade().map_or(0, |shared| read(&shared)));
    };
    number(&names::SESSIONS, |shared| count(shared.state.gateway.counts().sessions));
    number(&names::PARKED_CALLS, |shared| count(shared.state.gateway.counts().parked_calls));
    number(&names::DROPPED_MESSAGES, |shared| shared.state.gateway.counts().dropped_messages);
    number(&names::DETACHED_CALLS, |shared| count(shared.state.gateway.counts().detached_calls));
    number(&names::DETACHED_CALLS_ENDED, |shared| {
        shared.state.gateway.counts().detached_calls_ended
    });
    number(&names::CONNECTIONS, |shared| count(shared.connections.count()));
    number(&names::CONNECTIONS_EVICTED, |shared| shared.connections.evictions());
    number(&names::BUFFERED_BYTES, |shared| count(shared.state.budget.counts().held));
    number(&names::BUFFERED_BYTES_LIMIT, |shared| count(shared.state.budget.counts().limit));
    number(&names::BUFFERED_BYTES_WAITING, |shared| count(shared.state.budget.counts().waiting));
    number(&names::BUFFERED_BYTES_REFUSED, |shared| shared.state.budget.counts().rejections);
    number(&names::AUDIT_DROPPED, |shared| {
        let reloadable = shared.reloadable.load();
        let counts =
            reloadable.audit_pipeline.as_ref().map(|audit_pipeline| audit_pipeline.log.counts());
        counts.map_or(0, |counts| counts.dropped + counts.failed)
    });
    issuer(shared, telemetry);
    peers(shared, telemetry);
    let open = egress.clone();
    telemetry.observe(&names::POOL_CONNECTIONS, move || count(open.gauges().open));
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::CACHE_ENTRIES, names::CACHE_NAME, move |record| {
        let Some(shared) = watched.upgrade() else { return };
        shared.cache_entries().into_iter().for_each(|(kind, number)| record(kind, count(number)));
    });
    backends(shared, telemetry);
    session_storage(shared, telemetry);
    tool_search(shared, telemetry);
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::WORKFLOW_RUNS_ACTIVE, names::WORKFLOW_STATUS, move |record| {
        let Some(shared) = watched.upgrade() else { return };
        let gateway = &shared.state.gateway;
        let (counts, stored) = (gateway.workflow_counts(), gateway.stored_runs());
        record("running", count(counts.running.saturating_sub(counts.waiting)));
        let suspended = stored.map_or(0, |stored| stored.suspended);
        record("input_required", count(counts.waiting + suspended));
    });
}

/// Availability of the storage that replicas share.
const SESSION_STORAGE_UP: Metric = Metric {
    name: "vmcp_session_storage_up",
    kind: MetricKind::Gauge,
    unit: "",
    description: "Availability of the storage that replicas share, by part: 1 or 0.",
};

/// Label with the part of the storage: `sessions`, `workflows`, or `messages` of other replicas.
const SESSION_STORAGE_PART: &str = "vmcp.session_storage.part";

/// Registers the state of the storage that replicas share, if there is one.
fn session_storage(shared: &Arc<ServerState>, telemetry: &Telemetry) {
    let Some(storage) = shared.state.session_storage.clone() else { return };
    telemetry.observe_each(&SESSION_STORAGE_UP, SESSION_STORAGE_PART, move |record| {
        storage.parts().into_iter().for_each(|(part, works)| record(part, works.into()));
    });
}

/// Requests that were forwarded to other replicas.
const PEER_REQUESTS: Metric = Metric {
    name: "vmcp_peer_requests",
    kind: MetricKind::Counter,
    unit: "",
    description: "Requests that were forwarded to other replicas, by kind and outcome.",
};

/// Label with what a forwarded request names: `response`, `resumption`, `cancellation`, `suspended_call` or `workflow_run`.
const PEER_REQUEST_KIND: &str = "vmcp.peer.kind";

/// Label with the outcome of a forwarded request: `responded`, `gone` or `failed`.
const PEER_REQUEST_OUTCOME: &str = "vmcp.peer.outcome";

/// Connections with other replicas.
const PEER_CONNECTIONS: Metric = Metric {
    name: "vmcp_peer_connections",
    kind: MetricKind::Gauge,
    unit: "",
    description: "Connections with other replicas, by direction.",
};

/// Label with the direction of connections: `outgoing` or `incoming`.
const PEER_DIRECTION: &str = "vmcp.peer.direction";

/// Registers the numbers of connections and requests between replicas.
fn peers(shared: &Arc<ServerState>, telemetry: &Telemetry) {
    let Some(client) = shared.state.peers.clone() else { return };
    telemetry.observe_each(&PEER_CONNECTIONS, PEER_DIRECTION, move |record| {
        let counts = client.counts();
        record("outgoing", count(counts.outgoing));
        record("incoming", count(counts.incoming));
    });
    let watched = Arc::downgrade(shared);
    let labels = [PEER_REQUEST_KIND, PEER_REQUEST_OUTCOME];
    telemetry.observe_each_pair(&PEER_REQUESTS, labels, move |record| {
        let Some(shared) = watched.upgrade() else { return };
        for forwards in shared.state.gateway.forward_counts() {
            record([forwards.kind, forwards.outcome], forwards.requests);
        }
    });
}

/// Registers the numbers of the tool search.
fn tool_search(shared: &Arc<ServerState>, telemetry: &Telemetry) {
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::TOOL_SEARCHES, names::SEARCH_MODE, move |record| {
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
    number(&names::SEARCH_BASELINE_TOKENS, |counts| counts.baseline_tokens);
    number(&names::SEARCH_RETURNED_TOKENS, |counts| counts.returned_tokens);
    let watched = Arc::downgrade(shared);
    telemetry.observe_optional(&names::EMBEDDING_SERVICE_UP, move || {
        let status = watched.upgrade()?.state.gateway.optimizer()?.embedder?;
        // Unknown before the first contact.
        let is_known = status.model.is_some() || status.outage.is_some();
        is_known.then(|| status.outage.is_none().into())
    });
}

/// Registers the gauges of each backend.
fn backends(shared: &Arc<ServerState>, telemetry: &Telemetry) {
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::BACKEND_HEALTHY, names::BACKEND, move |record| {
        each(&watched, |backend| {
            record(&backend.name, u64::from(backend.is_healthy()));
        });
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::HEALTH_CHANGES, names::BACKEND, move |record| {
        each(&watched, |backend| {
            let Some(checked) = &backend.checked else { return };
            record(&backend.name, checked.changes);
        });
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::CIRCUIT_STATE, names::BACKEND, move |record| {
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
    telemetry.observe_each(&names::AUTH_HELD, names::AUTH_KIND, move |record| {
        let Some(issuer) = auth_server(&watched) else { return };
        issuer.memory_counts().into_iter().for_each(|(kind, held)| record(kind, count(held)));
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::AUTH_STORED, names::AUTH_KIND, move |record| {
        let Some(issuer) = auth_server(&watched) else { return };
        issuer.stored_counts().into_iter().for_each(|(kind, stored)| record(kind, count(stored)));
    });
    let watched = Arc::downgrade(shared);
    telemetry.observe_each(&names::AUTH_STORE_UP, names::AUTH_STORAGE, move |record| {
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
