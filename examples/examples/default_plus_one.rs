//! The default stack with an additional outermost layer, which numbers the requests.
//!
//! Any layer around the gateway's MCP service works the same way. A layer around `BackendSettings::service` handles the
//! requests to one backend.
//!
//! ```text
//! $ cargo run -p vmcp-examples --example default_plus_one -- 127.0.0.1:8080 http://127.0.0.1:8001/mcp
//!
//! $ curl -i http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' -d '{}'
//! HTTP/1.1 400 Bad Request
//! x-request-number: 1
//!
//! $ curl -i http://127.0.0.1:8080/mcp \
//!     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
//!     -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' \
//!     -H 'Mcp-Name: fixture_test_simple_text' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
//!          "name":"fixture_test_simple_text","_meta":{
//!          "io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!          "io.modelcontextprotocol/clientCapabilities":{}}}}'
//! HTTP/1.1 200 OK
//! x-request-number: 2
//! ```

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tower::{Layer, Service};
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::Limits;
use vmcp_config::{File, Format};
use vmcp_decode::DecodeLayer;
use vmcp_egress::Egress;
use vmcp_http_guard::{AllowedHostsLayer, ConcurrencyLimitLayer};
use vmcp_seal::KeyRing;
use vmcp_server::parts::Parts;
use vmcp_server::request_log::RequestLogLayer;
use vmcp_server::stack::IncomingLayers;

/// Adds the number of the request to each response.
#[derive(Clone, Debug, Default)]
struct NumberLayer(Arc<AtomicU64>);

#[derive(Clone, Debug)]
struct Number<S> {
    inner: S,
    last: Arc<AtomicU64>,
}

impl<S> Layer<S> for NumberLayer {
    type Service = Number<S>;

    fn layer(&self, inner: S) -> Number<S> {
        Number { inner, last: Arc::clone(&self.0) }
    }
}

impl<S, B, R> Service<Request<B>> for Number<S>
where
    S: Service<Request<B>, Response = Response<R>, Future: Send + 'static>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            response.headers_mut().insert("x-request-number", number.into());
            Ok(response)
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let backend = arguments.next().unwrap_or_else(|| "http://127.0.0.1:8001/mcp".to_owned());
    let configuration = format!(
        "name: plus-one\n\
         incomingAuth: {{type: anonymous}}\n\
         backends: [{{name: fixture, url: \"{backend}\", transport: streamable-http}}]\n"
    );
    let egress = Egress::new(vmcp_egress::Settings::default());
    let parts = Parts::builder(&egress).build(File::parse(&configuration, Format::Yaml)?)?;
    let limits = Limits::default();
    let ring = KeyRing::ephemeral(limits.clock.clone())?;
    let gateway = Gateway::new(parts.settings, limits, ring);
    let incoming = IncomingLayers {
        telemetry: parts.telemetry.map(|parts| parts.telemetry.incoming()),
        log: RequestLogLayer::default(),
        concurrency_limit: ConcurrencyLimitLayer::new(4096),
        allowed_hosts: AllowedHostsLayer::loopback(Vec::new(), Vec::new()),
        audit: None,
        authenticate: parts.incoming_auth.authenticate,
        decode: DecodeLayer::new(),
        authorize: parts.incoming_auth.authorize,
    };
    let service = TowerToHyperService::new(NumberLayer::default().layer(incoming.stack(gateway)));

    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service.clone());
        tokio::spawn(connection);
    }
}
