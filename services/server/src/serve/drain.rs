//! Graceful shutdown.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{join, join_all};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::time::Instant;
use vmcp_audit_log::LogHandle;

use super::peers::RunningPeers;
use crate::kubernetes::Reporter;
use crate::routes::ServerState;

/// Time limit for writing the last audit events and measurements at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Tasks that run beside the listener for clients.
pub(super) struct Running {
    pub(super) peers: Option<RunningPeers>,
    pub(super) reporter: Option<Reporter>,
}

/// Completes requests under way. Connections are closed after `limit`.
pub(super) async fn drain(
    shared: &ServerState,
    graceful: GracefulShutdown,
    Running { peers, reporter }: Running,
    limit: Duration,
) {
    let began = Instant::now();
    shared.draining.store(true, Ordering::Release);
    // Streams of this transport come first: they would otherwise reopen their inner streams.
    shared.state.legacy_sse.drain();
    shared.state.gateway.drain();
    let connections = shared.connections.count();
    tracing::info!(connections, "stopping");
    // Tasks run on while no connection is open.
    let ending = join(graceful.shutdown(), shared.state.gateway.wait_for_tasks());
    // At once: another replica reports while this one completes its requests.
    let handing_over = async {
        if let Some(reporter) = reporter {
            reporter.stop().await;
        }
    };
    let (ended, ()) = join(tokio::time::timeout(limit, ending), handing_over).await;
    if ended.is_err() {
        tracing::warn!("drain timeout elapsed with open connections or running tasks");
    }
    // After the calls that wait for what other replicas forward.
    if let Some(peers) = peers {
        peers.stop(limit.saturating_sub(began.elapsed())).await;
    }
    shared.state.gateway.close().await;
    if let Some(audit_pipeline) = &shared.reloadable.load_full().audit_pipeline {
        audit_pipeline.log.close();
        // A blocked disk must not delay the shutdown.
        _ = tokio::time::timeout(FLUSH_TIMEOUT, audit_pipeline.log.flush()).await;
    }
    let retired = shared.retired_logs();
    let flushing = retired.iter().map(LogHandle::flush);
    _ = tokio::time::timeout(FLUSH_TIMEOUT, join_all(flushing)).await;
    if let Some(telemetry) = shared.state.telemetry()
        && let Err(error) = telemetry.shutdown(FLUSH_TIMEOUT).await
    {
        tracing::warn!(%error, "failed to export the last telemetry");
    }
}
