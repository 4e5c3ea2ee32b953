//! One connection of a client.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::Watcher;
use tokio::net::TcpStream;
use vmcp_core::BoxError;

use super::event_loop::Activity;
use super::event_loop::{HEAD_TIMEOUT, HeadTimer, drive};
use super::send_timeout::SendTimeout;
use crate::routes::Routes;

/// The largest head of a request, in bytes, and with that the largest buffer of a connection, which no budget counts.
const MAX_HEAD_SIZE: usize = 16 << 10;

/// Serves a connection on the runtime that it is awaited in.
pub(super) fn connection(
    stream: TcpStream,
    routes: Routes,
    watcher: Watcher,
    activity: Activity,
) -> impl Future<Output = Result<(), BoxError>> {
    // Answers are small and wanted at once. If it cannot be set, they are only later.
    _ = stream.set_nodelay(true);
    let stream = stream.into_std();
    async move {
        let stream = TcpStream::from_std(stream?)?;
        let connections = Arc::clone(&routes.shared.connections);
        let stream = SendTimeout::new(TokioIo::new(stream), routes.shared.state.budget.clone());
        let served = http1::Builder::new()
            .timer(HeadTimer::new(activity.clone()))
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_SIZE)
            .serve_connection(stream, routes);
        connections.fetch_add(1, Ordering::Relaxed);
        let must_close = || activity.must_close();
        let ended = drive(activity.task_waker(), must_close, watcher.watch(served)).await;
        connections.fetch_sub(1, Ordering::Relaxed);
        // Evicted, it ended without an error.
        if let Some(ended) = ended {
            ended?;
        }
        Ok(())
    }
}
