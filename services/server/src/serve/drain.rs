//! Graceful shutdown.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use hyper_util::server::graceful::GracefulShutdown;
use vmcp_audit_log::LogHandle;

use crate::routes::Shared;

/// Time limit for writing the last audit events and measurements at shutdown.
const LAST_LINES: Duration = Duration::from_secs(5);

/// Completes requests under way. Connections are closed after `limit`.
pub(super) async fn drain(shared: &Shared, graceful: GracefulShutdown, limit: Duration) {
    shared.draining.store(true, Ordering::Release);
    // Streams of this transport come first: they would otherwise reopen their inner streams.
    shared.fixed.old.drain();
    shared.fixed.gateway.drain();
    let connections = shared.connections.load(Ordering::Relaxed);
    tracing::info!(connections, "stopping");
    if tokio::time::timeout(limit, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections were still open when the time to stop ran out");
    }
    shared.fixed.gateway.close().await;
    if let Some(recording) = &shared.stacks.load_full().recording {
        recording.log.close();
        // A blocked disk must not delay the shutdown.
        _ = tokio::time::timeout(LAST_LINES, recording.log.flush()).await;
    }
    let retired = shared.retired_logs();
    let flushing = retired.iter().map(LogHandle::flush);
    _ = tokio::time::timeout(LAST_LINES, join_all(flushing)).await;
    if let Some(telemetry) = &shared.fixed.telemetry
        && let Err(error) = telemetry.shutdown(LAST_LINES).await
    {
        tracing::warn!(%error, "the last measurements are lost");
    }
}
