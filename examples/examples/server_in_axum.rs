//! The complete gateway as one route of an axum application, beside the application's own routes.
//!
//! ```text
//! $ cargo run -p vmcp-examples --example server_in_axum -- 127.0.0.1:8080 http://127.0.0.1:8001/mcp
//!
//! $ curl http://127.0.0.1:8080/hello
//! Hello!
//!
//! $ curl http://127.0.0.1:8080/mcp \
//!     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
//!     -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' \
//!     -H 'Mcp-Name: fixture_test_simple_text' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
//!          "name":"fixture_test_simple_text","_meta":{
//!          "io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!          "io.modelcontextprotocol/clientCapabilities":{}}}}'
//! {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"This is a simple text response for testing."}]}}
//!
//! $ curl -i http://127.0.0.1:8080/mcp -H 'Origin: https://elsewhere.example.com' -d '{}'
//! HTTP/1.1 403 Forbidden
//! ```

use std::error::Error;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::Limits;
use vmcp_config::{File, Format};
use vmcp_decode::DecodeLayer;
use vmcp_egress::Egress;
use vmcp_http_guard::{AllowedHostsLayer, ConcurrencyLimitLayer};
use vmcp_seal::KeyRing;
use vmcp_server::parts::Parts;
use vmcp_server::request_log::RequestLogLayer;
use vmcp_server::stack::{IncomingLayers, McpService};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let backend = arguments.next().unwrap_or_else(|| "http://127.0.0.1:8001/mcp".to_owned());

    let application = Router::new()
        .route("/hello", get(|| async { "Hello!\n" }))
        .route_service("/mcp", gateway(&backend)?);

    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, application).await?;
    Ok(())
}

/// Builds the default stack from a configuration, as `vmcp serve` does.
fn gateway(backend: &str) -> Result<McpService<axum::body::Body>, Box<dyn Error>> {
    let configuration = format!(
        "name: in-axum\n\
         incomingAuth: {{type: anonymous}}\n\
         backends:\n\
         - {{name: fixture, url: \"{backend}\", transport: streamable-http}}\n"
    );
    let file = File::parse(&configuration, Format::Yaml)?;
    let egress = Egress::new(vmcp_egress::Settings::default());
    let Parts { settings, incoming_auth, telemetry, .. } = Parts::builder(&egress).build(file)?;

    let limits = Limits::default();
    let ring = KeyRing::ephemeral(limits.clock.clone())?;
    let incoming = IncomingLayers {
        telemetry: telemetry.map(|parts| parts.telemetry.incoming()),
        log: RequestLogLayer::default(),
        concurrency_limit: ConcurrencyLimitLayer::new(4096),
        // This application listens on the loopback interface; on a network, `AllowedHostsLayer::network`.
        allowed_hosts: AllowedHostsLayer::loopback(Vec::new(), Vec::new()),
        audit: None,
        authenticate: incoming_auth.authenticate,
        decode: DecodeLayer::new(),
        authorize: incoming_auth.authorize,
    };
    Ok(incoming.stack(Gateway::new(settings, limits, ring)))
}
