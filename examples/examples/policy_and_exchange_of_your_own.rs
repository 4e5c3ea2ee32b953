//! Closures as authenticator, policy and token exchange. The layers do the rest: rejections, hidden names, filtered
//! lists, token caching.
//!
//! ```text
//! $ cargo run -p vmcp-examples --example policy_and_exchange_of_your_own -- 127.0.0.1:8080 http://127.0.0.1:8001/mcp
//! listening on 127.0.0.1:8080
//! exchanged for ann
//!
//! $ curl -i http://127.0.0.1:8080/mcp -H 'X-Key: guessed' -H 'Content-Type: application/json' -d '{}'
//! HTTP/1.1 401 Unauthorized
//!
//! $ curl http://127.0.0.1:8080/mcp -H 'X-Key: key-of-ann' \
//!     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
//!     -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: fixture_whoami' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fixture_whoami","_meta":{
//!          "io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!          "io.modelcontextprotocol/clientCapabilities":{}}}}'
//! … "authorization":"Bearer backend-token-of-ann" …
//!
//! $ curl -i http://127.0.0.1:8080/mcp -H 'X-Key: key-of-bob' \
//!     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
//!     -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: fixture_whoami' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fixture_whoami","_meta":{
//!          "io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!          "io.modelcontextprotocol/clientCapabilities":{}}}}'
//! HTTP/1.1 403 Forbidden
//!
//! $ curl http://127.0.0.1:8080/mcp -H 'X-Key: key-of-ann' \
//!     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
//!     -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: fixture_slow' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fixture_slow","_meta":{
//!          "io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!          "io.modelcontextprotocol/clientCapabilities":{}}}}'
//! {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown tool: fixture_slow"}}
//! ```

use std::convert::Infallible;
use std::future::ready;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};
use vmcp_authn::{AuthError, AuthenticationLayer};
use vmcp_authz::{Action, AuthorizationLayer};
use vmcp_core::{Body, BoxError, Caller, Clock, Decision, Identity, Item, Rejection};
use vmcp_decode::DecodeLayer;
use vmcp_token_exchange::{
    AccessToken, CachedExchange, ExchangeError, Subject, TokenExchangeLayer,
};

/// Authenticates callers by API key. The key is stored as the token that the exchange receives.
fn who(headers: &HeaderMap) -> Result<Identity, AuthError> {
    let key = headers.get("x-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
    let name = match key {
        "key-of-ann" => "ann",
        "key-of-bob" => "bob",
        _ => return Err(AuthError::NoCredentials),
    };
    Ok(Identity::builder("https://keys.example.com", name).token(key.into()).build())
}

/// Decides on access: all callers see `fixture_whoami`, Ann may call it, and all other names are hidden.
fn may(caller: &Identity, item: &Item<'_>, action: Action<'_>) -> Decision {
    match (item.name, action) {
        ("fixture_whoami", Action::List) => Decision::Allow,
        ("fixture_whoami", Action::Call(_)) if caller.subject() == Some("ann") => Decision::Allow,
        ("fixture_whoami", Action::Call(_)) => Decision::Deny,
        _ => Decision::Hide,
    }
}

/// Returns the credentials for the backend. A real application would query its vault here.
async fn exchange(subject: Subject) -> Result<AccessToken, ExchangeError> {
    let refused = |code: &str| ExchangeError::Rejected { code: code.into() };
    let name = subject.identity().subject().ok_or_else(|| refused("nobody"))?;
    println!("exchanged for {name}");
    AccessToken::new(&format!("backend-token-of-{name}").into(), None)
        .map_err(|_| refused("illegal"))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let backend = arguments.next().unwrap_or_else(|| "http://127.0.0.1:8001/mcp".to_owned());
    let backend: Uri = backend.parse()?;

    let client = TokenExchangeLayer::new(CachedExchange::new(exchange, Clock::system()))
        .layer(Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>());
    let proxy = service_fn(move |mut request: Request<Full<Bytes>>| {
        *request.uri_mut() = backend.clone();
        request.headers_mut().remove(HOST);
        let caller = request.extensions_mut().remove::<Identity>().map(Caller::User);
        caller.and_then(|caller| request.extensions_mut().insert(caller));
        let answer = client.clone().oneshot(request);
        async move {
            Ok::<_, Infallible>(answer.await.map_or_else(
                |_| {
                    Rejection::backend_unavailable("fixture", "cannot be asked").into_response(None)
                },
                |answer: Response<_>| answer.map(Body::wrap),
            ))
        }
    });
    let service = ServiceBuilder::new()
        .layer(AuthenticationLayer::new(|headers: &HeaderMap| ready(who(headers))))
        .layer(DecodeLayer::new())
        .layer(AuthorizationLayer::new(may))
        .service(proxy);
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
