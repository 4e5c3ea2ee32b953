//! HTTP listener of a server.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Path of the MCP endpoint.
pub(crate) const PATH: &str = "/mcp";

/// Maximum size of a message, in bytes.
const MAX_MESSAGE_SIZE: usize = 1 << 20;

/// Maximum number of connections: those of the gateway and of any other client on this machine.
const MAX_CONNECTIONS: usize = 512;

/// Serves the handlers until the future is dropped.
pub(crate) async fn serve<H: ServerHandler>(
    listener: TcpListener,
    config: StreamableHttpServerConfig,
    handler: impl Fn() -> H + Send + Sync + 'static,
) {
    // Only browsers send an origin; the gateway does not.
    let config = config.enforce_origin_validation().with_max_request_body_bytes(MAX_MESSAGE_SIZE);
    let sessions = Arc::<LocalSessionManager>::default();
    let service = StreamableHttpService::new(move || Ok(handler()), sessions, config);
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let service = service.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let service = service.clone();
                async move { Ok::<_, Infallible>(handle(&service, request).await) }
            });
            // A connection error affects that connection alone.
            _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

async fn handle<H: ServerHandler>(
    service: &StreamableHttpService<H, LocalSessionManager>,
    request: Request<Incoming>,
) -> Response<BoxBody<Bytes, Infallible>> {
    if request.uri().path() == PATH {
        return service.handle(request).await;
    }
    let mut response = Response::new(Empty::new().boxed());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
