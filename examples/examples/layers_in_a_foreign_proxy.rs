//! `vmcp-decode` and `vmcp-timeout` in a bare hyper reverse proxy without other vmcp crates.
//!
//! The proxy routes each call to one of two servers by the tool's name in the decoded message; the second server has a
//! shorter timeout.
//!
//! ```text
//! $ cargo run -p vmcp-examples --example layers_in_a_foreign_proxy -- 127.0.0.1:8080 127.0.0.1:8001 127.0.0.1:8001
//!
//! $ curl http://127.0.0.1:8080/mcp \
//!     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
//!     -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: test_simple_text' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_simple_text","_meta":{
//!          "io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!          "io.modelcontextprotocol/clientCapabilities":{}}}}'
//! … This is a simple text response for testing. …
//!
//! $ curl -i http://127.0.0.1:8080/mcp \
//!     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
//!     -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: fixture_slow' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fixture_slow",
//!          "arguments":{"ms":60000},"_meta":{
//!          "io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!          "io.modelcontextprotocol/clientCapabilities":{}}}}'
//! HTTP/1.1 504 Gateway Timeout
//!
//! $ curl http://127.0.0.1:8080/mcp \
//!     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
//!     -d '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}'
//! {"jsonrpc":"2.0","error":{"code":-32600, …
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use vmcp_core::{Backend, Body, BoxError, McpRequest, cause_ref};
use vmcp_decode::DecodeLayer;
use vmcp_timeout::{Elapsed, TimeoutLayer};
use vmcp_wire::Key;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let address = next("127.0.0.1:8080");
    let [quick, other] = [next("127.0.0.1:8001"), next("127.0.0.1:8001")];
    let (quick, other): (Authority, Authority) = (quick.parse()?, other.parse()?);

    let impatient = HashMap::from([(Backend::new("other"), Duration::from_millis(500))]);
    let client = ServiceBuilder::new()
        .layer(TimeoutLayer::new(Duration::from_secs(30)).per_backend(impatient))
        .service(Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>());
    let proxy = service_fn(move |mut request: Request<Full<Bytes>>| {
        let message = request.extensions().get::<McpRequest>();
        let is_quick = message.is_none_or(|message| !tool(message).starts_with("fixture_"));
        let (name, server) = if is_quick { ("quick", &quick) } else { ("other", &other) };
        // The timeout layer selects the timeout by this extension.
        request.extensions_mut().insert(Backend::new(name));
        let forwarded = forward(client.clone(), request, server.clone());
        async move { Ok::<_, Infallible>(forwarded.await.unwrap_or_else(|error| refuse(&error))) }
    });
    let service = TowerToHyperService::new(DecodeLayer::new().layer(proxy));

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

/// Returns the tool of a call, or an empty text for other messages.
fn tool(message: &McpRequest) -> String {
    let name = message.text(Key::Name);
    name.map(|name| name.read(&message.bytes).into_owned()).unwrap_or_default()
}

async fn forward<C, B>(
    client: C,
    mut request: Request<Full<Bytes>>,
    server: Authority,
) -> Result<Response<Body>, BoxError>
where
    C: Service<Request<Full<Bytes>>, Response = Response<B>, Error = BoxError>,
    B: http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static,
{
    let mut target = request.uri().clone().into_parts();
    (target.scheme, target.authority) = (Some(Scheme::HTTP), Some(server));
    *request.uri_mut() = Uri::from_parts(target)?;
    request.headers_mut().remove(HOST);
    Ok(client.oneshot(request).await?.map(Body::wrap))
}

/// Maps an error to a response; the timeout layer's error has its own type.
fn refuse(error: &BoxError) -> Response<Body> {
    let status = match cause_ref::<Elapsed>(error.as_ref()) {
        Some(_) => StatusCode::GATEWAY_TIMEOUT,
        None => StatusCode::BAD_GATEWAY,
    };
    let mut response = Response::new(Body::from(Bytes::from(format!("{error}\n"))));
    *response.status_mut() = status;
    response
}
