//! A server written with rmcp behind vmcp's layers: foreign hosts, crowds and messages that could be read in two ways
//! are refused before rmcp sees them.
//!
//! ```text
//! $ cargo run -p vmcp-examples --example rmcp_behind_our_layers -- 127.0.0.1:8080
//!
//! $ curl http://127.0.0.1:8080/mcp \
//!     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
//!     -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: greet' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","_meta":{
//!          "io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!          "io.modelcontextprotocol/clientCapabilities":{}}}}'
//! … Good morning! …
//!
//! $ curl -i http://127.0.0.1:8080/mcp \
//!     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","Name":"delete"}}'
//! HTTP/1.1 400 Bad Request
//!
//! $ curl -i http://127.0.0.1:8080/mcp -H 'Host: elsewhere.example.com' -d '{}'
//! HTTP/1.1 403 Forbidden
//! ```

use std::error::Error;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, json};
use tokio::net::TcpListener;
use tower::ServiceBuilder;
use vmcp::guard::{CatchPanicLayer, CrowdLayer, HostsLayer};
use vmcp_core::Body;
use vmcp_decode::DecodeLayer;

/// An MCP server with one tool.
#[derive(Clone, Debug)]
struct Greeter;

impl ServerHandler for Greeter {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        Ok(ListToolsResult::with_all_items(vec![Tool::new("greet", "Says hello.", schema)]))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text("Good morning!")]).into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let greeter = StreamableHttpService::new(
        || Ok(Greeter),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let service = ServiceBuilder::new()
        .layer(CatchPanicLayer)
        .layer(CrowdLayer::new(1024))
        .layer(HostsLayer::loopback(Vec::new(), Vec::new()))
        .layer(DecodeLayer::new())
        // The layers answer with bytes, rmcp with a body of its own: `Body` is either.
        .map_response(|response: http::Response<_>| response.map(Body::wrap))
        .service(greeter);
    let service = TowerToHyperService::new(service);

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
