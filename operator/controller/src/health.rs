//! HTTP endpoints of the operator: `/healthz`, `/readyz` and `/metrics`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::metrics::Metrics;
use crate::stores::Stores;

/// Connections at a time.
const MAX_CONNECTIONS: usize = 64;

const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// State that the endpoints show.
pub(crate) struct Endpoints {
    pub(crate) stores: Arc<Stores>,
    pub(crate) metrics: Arc<Metrics>,
}

// === impl Endpoints ===

impl Endpoints {
    /// Serves connections of a listener until the future is dropped.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let endpoints = Arc::new(self);
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "connection not accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let endpoints = Arc::clone(&endpoints);
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let response = endpoints.respond(request.uri().path());
                    std::future::ready(Ok::<_, Infallible>(response))
                });
                let mut builder = http1::Builder::new();
                builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
                if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
                    tracing::debug!(%error, "connection failed");
                }
                drop(permit);
            });
        }
    }

    fn respond(&self, path: &str) -> Response<Full<Bytes>> {
        let (status, text) = match path {
            "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
            "/readyz" if self.stores.are_listed() => (StatusCode::OK, "ok\n".to_owned()),
            "/readyz" => {
                (StatusCode::SERVICE_UNAVAILABLE, "waiting for the API server\n".to_owned())
            }
            "/metrics" => (StatusCode::OK, self.metrics.text(&self.stores)),
            _ => (StatusCode::NOT_FOUND, "not found\n".to_owned()),
        };
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        let plain = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
        response
    }
}
