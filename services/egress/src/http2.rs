//! HTTP/2 connection that all exchanges of an origin share (RFC 9113).
//!
//! Its driver serves concurrent exchanges, so it runs in its own task. The task ends with the
//! connection: after a GOAWAY, a closed socket, unanswered pings, or when the pool drops the
//! sender.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::{Error, exchange::ExchangeError, shared::OpenGuard, stream::Stream};

/// Interval and timeout of pings on a connection with open streams.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Handle of the shared connection.
#[derive(Clone)]
pub(crate) struct Http2Connection {
    sender: http2::SendRequest<Full<Bytes>>,
}

impl Http2Connection {
    pub(crate) async fn open(
        stream: Stream,
        max_head: usize,
        open: OpenGuard,
    ) -> Result<Self, Error> {
        let (sender, driver) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            // The server's SETTINGS announce its limit; it would refuse further streams before.
            .initial_max_send_streams(1)
            .max_header_list_size(u32::try_from(max_head).unwrap_or(u32::MAX))
            .handshake(stream)
            .await
            .map_err(|error| Error::from_hyper(error, false))?;
        tokio::spawn(async move {
            let _open = open;
            if let Err(error) = driver.await {
                tracing::debug!(%error, "HTTP/2 connection ended");
            }
        });
        Ok(Self { sender })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ExchangeError> {
        self.sender.try_send_request(request).await.map_err(ExchangeError::from)
    }
}
