//! An rmcp server behind vmcp's layers, which reject foreign hosts, excess load, unauthenticated callers and ambiguous
//! messages before rmcp reads them, apply a policy to lists and calls, and audit each request. The rmcp server needs no
//! change.
//!
//! The program first prints a token, as a shell assignment, and then the audit events.
//!
//! ```text
//! $ cargo run -p vmcp-examples --example rmcp_behind_our_layers -- 127.0.0.1:8080
//! ann=…
//! listening on 127.0.0.1:8080
//! http_request denied, anonymous
//! mcp_tool_call success, ann
//! mcp_tools_list success, ann
//! http_request failure, ann
//!
//! $ curl -i http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' -d '{}'
//! HTTP/1.1 401 Unauthorized
//!
//! $ curl http://127.0.0.1:8080/mcp -H "Authorization: Bearer $ann" \
//!     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
//!     -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: greet' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","_meta":{
//!          "io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!          "io.modelcontextprotocol/clientCapabilities":{}}}}'
//! … Good morning! …
//!
//! $ curl http://127.0.0.1:8080/mcp -H "Authorization: Bearer $ann" \
//!     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
//!     -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/list' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
//!          "io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!          "io.modelcontextprotocol/clientCapabilities":{}}}}'
//! … "tools":[{"name":"greet", … }] …
//!
//! $ curl -i http://127.0.0.1:8080/mcp -H "Authorization: Bearer $ann" \
//!     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","Name":"wipe"}}'
//! HTTP/1.1 400 Bad Request
//!
//! $ curl -i http://127.0.0.1:8080/mcp -H 'Host: elsewhere.example.com' -d '{}'
//! HTTP/1.1 403 Forbidden
//! ```

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
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
use vmcp_audit::{AuditLayer, AuditSettings, Auditor, Event};
use vmcp_authn::{AuthenticationLayer, BearerAuthenticator, CachedVerifier, JwtVerifier};
use vmcp_authz::AuthorizationLayer;
use vmcp_cedar::Cedar;
use vmcp_core::{Body, BoxError, Clock, Identity};
use vmcp_decode::DecodeLayer;
use vmcp_examples::Issuer;
use vmcp_http_guard::{AllowedHostsLayer, CatchPanicLayer, ConcurrencyLimitLayer};

/// No policy permits `wipe`.
const POLICY: &str = r#"permit(principal, action, resource == Tool::"greet");"#;

/// An MCP server with two tools.
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
        Ok(ListToolsResult::with_all_items(vec![
            Tool::new("greet", "Says hello.", schema.clone()),
            Tool::new("wipe", "Removes everything.", schema),
        ]))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text("Good morning!")]).into())
    }
}

fn print(Event { kind, outcome, caller, .. }: Event) {
    let caller = caller.as_ref().and_then(Identity::subject).unwrap_or("anonymous");
    println!("{} {}, {caller}", kind.name(), outcome.name());
}

/// Unifies the response bodies: rejecting layers return bytes, observing layers wrap the inner body, and rmcp has its own
/// type.
fn wrap<B>(response: Response<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    response.map(Body::wrap)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let issuer = Issuer::new("https://greeter.example.com")?;
    println!("ann={}", issuer.token("ann", &[])?);
    let known = CachedVerifier::verified(JwtVerifier::new(issuer.verifier()), Clock::system());
    let greeter = StreamableHttpService::new(
        || Ok(Greeter),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let service = ServiceBuilder::new()
        .layer(CatchPanicLayer)
        .layer(ConcurrencyLimitLayer::new(1024))
        .layer(AllowedHostsLayer::loopback(Vec::new(), Vec::new()))
        .map_response(wrap)
        .layer(AuditLayer::new(Auditor::new(AuditSettings::default(), print)))
        .layer(AuthenticationLayer::new(BearerAuthenticator::new(known)))
        .layer(DecodeLayer::new())
        .layer(AuthorizationLayer::new(Cedar::new("greeter", &[POLICY], "")?))
        .map_response(wrap)
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
