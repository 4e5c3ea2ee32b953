//! Responses of the administration endpoints.

use http::{Response, StatusCode};
use serde_json::{Value, json};
use vmcp_aggregate::Gateway;
use vmcp_aggregate::status::{ForwardCount, OptimizerReport, Report, SearchCounts, WorkflowCounts};
use vmcp_core::{Body, Generation};
use vmcp_peer::{PeerClient, PeerCounts};
use vmcp_telemetry_export::Telemetry;

use super::{ServerState, backends, json_response};
use crate::auth_server::AuthServerRuntime;
use crate::parts::{LeftOutBackend, ServerInfo, transport_name};
use crate::session_storage::SharedStorage;
use crate::virtual_server::ReportProgress;

impl ServerState {
    /// Returns the response of an administration endpoint.
    pub(super) fn admin(&self, path: &str) -> Response<Body> {
        let missing = || json_response(StatusCode::NOT_FOUND, &json!({"error": "not_found"}));
        match path {
            "/status" => json_response(StatusCode::OK, &self.status()),
            "/api/backends/health" => {
                json_response(StatusCode::OK, &backends::health(&self.state.gateway))
            }
            "/metrics" => {
                let scrape = self.state.telemetry().and_then(Telemetry::scrape);
                scrape.map_or_else(missing, |scrape| scrape.response())
            }
            _ => missing(),
        }
    }

    /// Returns the body of `/status`.
    fn status(&self) -> Value {
        let report = self.state.gateway.report();
        let info = self.info.load();
        let backends: Vec<Value> = report
            .backends
            .iter()
            .map(|backend| {
                // A reload replaces the descriptions after the backends, so that one may be missing for a moment.
                let known = info.backends.get(&backend.name).cloned().unwrap_or_default();
                json!({
                    "name": backend.name,
                    "url": known.url,
                    "type": if known.entry { "entry" } else { "" },
                    "transport": transport_name(backend.transport),
                    "status": backend.health().name(),
                    "message": backend.detail.as_deref().or(backend.problem()),
                    "auth_type": known.auth,
                    "mcp_revision": backend.revision,
                    "mcp_revisions": backend.revisions,
                    "circuit": backend.breaker.as_ref().map(backends::circuit),
                    "checks": backend.checked.as_ref().map(backends::checked),
                    "metadata": known.metadata,
                })
            })
            .collect();
        let offered = |generation| {
            let shown = |kind| report.shown(kind, generation);
            json!({
                "tools": shown("tool"),
                "prompts": shown("prompt"),
                "resources": shown("resource"),
                "resource_templates": shown("resource template"),
            })
        };
        json!({
            "name": info.name,
            "version": env!("CARGO_PKG_VERSION"),
            "group_ref": info.group,
            "metadata": info.metadata,
            // `true` if clients get lists.
            "healthy": report.serves_lists(info.is_strict),
            "backends": backends,
            "left_out_backends": left_out(&info),
            "offered": offered(Generation::Stateless),
            "offered_to_stateful": offered(Generation::Stateful),
            "conflicts": conflicts(&report),
            "sessions": report.sessions,
            "cache_entries": self.cache_entries(),
            "parked_calls": report.parked_calls,
            "dropped_messages": report.dropped_messages,
            "detached_calls": report.detached_calls,
            "detached_calls_ended": report.detached_calls_ended,
            "connections": self.connections.count(),
            "peers": self.state.peers.as_ref().map(|client| peers(client, &self.state.gateway)),
            "workflows": workflows(&self.state.gateway),
            "optimizer": self.state.gateway.optimizer().map(optimizer),
            "session_storage": session_storage(self.state.session_storage.as_ref()),
            "configuration": self.reloads.to_json(),
            "status_reports": self.state.report_progress().map(status_reports),
            "authorization_server": self.reloadable.load().issuer().map(AuthServerRuntime::to_json),
        })
    }
}

/// Returns the backends that are configured, but not served.
fn left_out(info: &ServerInfo) -> Vec<Value> {
    let describe = |LeftOutBackend { backend, reason, message }: &LeftOutBackend| json!({"name": backend, "reason": reason.name(), "message": message});
    info.left_out.iter().map(describe).collect()
}

/// Returns the conflicts of names.
fn conflicts(report: &Report) -> Vec<Value> {
    let conflicts = report.conflicts.iter();
    let conflicts = conflicts.map(|conflict| {
        json!({
            "kind": conflict.kind,
            "name": conflict.name,
            "contenders": conflict.contenders,
            "resolution": conflict.resolution,
        })
    });
    conflicts.collect()
}

/// Returns the state of the storage that replicas share, or the memory of the process.
fn session_storage(storage: Option<&SharedStorage>) -> Value {
    storage.map_or_else(|| json!({"provider": "memory"}), SharedStorage::to_json)
}

/// Returns the progress of the reports in the status of the VirtualMCPServer.
fn status_reports(progress: ReportProgress) -> Value {
    let ReportProgress { is_leader, written, failed, last_success, problem } = progress;
    json!({
        "leader": is_leader,
        "written": written,
        "failed": failed,
        "last_success": last_success.and_then(backends::rfc3339),
        "problem": problem,
    })
}

/// Returns the state of the tool search.
fn optimizer(report: OptimizerReport) -> Value {
    let OptimizerReport { views, searches, index, embedder } = report;
    let SearchCounts { hybrid, semantic, keyword, fallback, baseline_tokens, returned_tokens } =
        searches;
    let embedding_service = embedder.map(|status| {
        json!({
            "model": status.model,
            "error": status.outage.map(|error| error.to_string()),
            "tool_vectors": status.tool_vectors,
            "query_vectors": status.query_vectors,
            "pending_sets": status.pending_sets,
            "pending_queries": status.pending_queries,
        })
    });
    json!({
        "indexed_tools": index.tools,
        "indexed_sets": index.sets,
        "views": views,
        "searches": {
            "hybrid": hybrid, "semantic": semantic, "keyword": keyword, "fallback": fallback,
        },
        "baseline_tokens": baseline_tokens,
        "returned_tokens": returned_tokens,
        "embedding_service": embedding_service,
    })
}

/// Returns the numbers of connections to other replicas, and of forwarded requests.
fn peers(client: &PeerClient, gateway: &Gateway) -> Value {
    let PeerCounts { outgoing, incoming, known } = client.counts();
    let forwarded: Vec<Value> = gateway
        .forward_counts()
        .into_iter()
        .filter(|count| count.requests > 0)
        .map(|ForwardCount { kind, outcome, requests }| {
            json!({ "kind": kind, "outcome": outcome, "requests": requests })
        })
        .collect();
    json!({
        "address": client.own().address().to_string(),
        "known_replicas": known,
        "connections_outgoing": outgoing,
        "connections_incoming": incoming,
        "forwarded": forwarded,
    })
}

/// Returns the numbers of runs of composite tools.
fn workflows(gateway: &Gateway) -> Value {
    let suspended = gateway.stored_runs().map_or(0, |stored| stored.suspended);
    let WorkflowCounts {
        running,
        waiting,
        completed,
        failed,
        steps_completed,
        steps_failed,
        steps_skipped,
        milliseconds,
    } = gateway.workflow_counts();
    json!({
        "runs_running": running,
        "runs_waiting": waiting + suspended,
        "runs_completed": completed,
        "runs_failed": failed,
        "steps_completed": steps_completed,
        "steps_failed": steps_failed,
        "steps_skipped": steps_skipped,
        "total_duration_ms": milliseconds,
    })
}
