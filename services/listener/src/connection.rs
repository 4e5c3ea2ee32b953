//! One connection of a client.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::Watcher;
use tokio::net::TcpStream;
use vmcp_core::{Body, BoxError};

use crate::Connections;
use crate::event_loop::{Activity, HEAD_TIMEOUT, HeadTimer, drive};
use crate::send_timeout::SendTimeout;

/// The largest head of a request, in bytes, and with that the largest buffer of a connection, which no budget counts.
const MAX_HEAD_SIZE: usize = 16 << 10;

/// Serves a connection on the runtime that it is awaited in.
pub(crate) fn connection<S>(
    stream: TcpStream,
    service: S,
    connections: Connections,
    watcher: Watcher,
    activity: Activity,
) -> impl Future<Output = Result<(), BoxError>>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
{
    // Answers are small and wanted at once. If it cannot be set, they are only later.
    _ = stream.set_nodelay(true);
    let stream = stream.into_std();
    async move {
        let stream = TcpStream::from_std(stream?)?;
        let Connections { open, budget, limit: _ } = connections;
        let stream = SendTimeout::new(TokioIo::new(stream), budget);
        let served = http1::Builder::new()
            .timer(HeadTimer::new(activity.clone()))
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_SIZE)
            .serve_connection(stream, service);
        open.fetch_add(1, Ordering::Relaxed);
        let must_close = || activity.must_close();
        let ended = drive(activity.task_waker(), must_close, watcher.watch(served)).await;
        open.fetch_sub(1, Ordering::Relaxed);
        // Evicted, it ended without an error.
        if let Some(ended) = ended {
            ended?;
        }
        Ok(())
    }
}
