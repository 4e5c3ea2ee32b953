//! An axum service that authenticates callers, authorizes them with Cedar policies, and audits each request.
//!
//! The program first prints a token for each of two users, as shell assignments, and then the audit events.
//!
//! ```text
//! $ cargo run -p vmcp-examples --example axum_behind_authn_authz_audit -- 127.0.0.1:8080
//! ann=…
//! bob=…
//! listening on 127.0.0.1:8080
//! http_request denied: anonymous POST
//! mcp_tools_list success: ann tools/list
//! mcp_tools_list success: bob tools/list
//! mcp_tool_call denied: bob tools/call deploy
//! mcp_tool_call success: ann tools/call deploy
//! mcp_tool_call denied: ann tools/call deploy
//!
//! $ curl -i http://127.0.0.1:8080/mcp -H 'Content-Type: application/json' -d '{}'
//! HTTP/1.1 401 Unauthorized
//! www-authenticate: Bearer realm="tools"
//!
//! $ curl http://127.0.0.1:8080/mcp -H "Authorization: Bearer $ann" -H 'Content-Type: application/json' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
//! {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"weather"},{"name":"deploy"}]}}
//!
//! $ curl http://127.0.0.1:8080/mcp -H "Authorization: Bearer $bob" -H 'Content-Type: application/json' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
//! {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"weather"}]}}
//!
//! $ curl http://127.0.0.1:8080/mcp -H "Authorization: Bearer $bob" -H 'Content-Type: application/json' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deploy","arguments":{"to":"test"}}}'
//! {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown tool: deploy"}}
//!
//! $ curl http://127.0.0.1:8080/mcp -H "Authorization: Bearer $ann" -H 'Content-Type: application/json' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deploy","arguments":{"to":"test"}}}'
//! {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"done, ann"}]}}
//!
//! $ curl -i http://127.0.0.1:8080/mcp -H "Authorization: Bearer $ann" -H 'Content-Type: application/json' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deploy","arguments":{"to":"production"}}}'
//! HTTP/1.1 403 Forbidden
//! ```

use axum::routing::post;
use axum::{Extension, Router};
use http::HeaderName;
use http::header::CONTENT_TYPE;
use serde_json::Value;
use tokio::net::TcpListener;
use tower::ServiceBuilder;
use vmcp_audit::{AuditLayer, AuditSettings, Auditor, Event};
use vmcp_authn::{AuthenticationLayer, BearerAuthenticator, CachedVerifier, JwtVerifier};
use vmcp_authz::AuthorizationLayer;
use vmcp_cedar::Cedar;
use vmcp_core::{BoxError, Clock, Identity, McpRequest};
use vmcp_decode::DecodeLayer;
use vmcp_examples::Issuer;

/// Every authenticated caller may call `weather`. Some callers may call `deploy`, but not with `production`.
const POLICIES: [&str; 2] = [
    r#"permit(principal, action, resource == Tool::"weather");"#,
    r#"permit(principal in Group::"ops", action, resource == Tool::"deploy")
       when { resource has arg_to && resource.arg_to == "test" };"#,
];

/// Handler of the application. Callers are authenticated and authorized before it runs; the extensions hold the caller's
/// identity and the decoded message.
async fn tools(
    Extension(caller): Extension<Identity>,
    Extension(message): Extension<McpRequest>,
) -> ([(HeaderName, &'static str); 1], String) {
    let id = String::from_utf8_lossy(message.id().unwrap_or(b"null")).into_owned();
    let result = if message.method() == "tools/list" {
        r#"{"tools":[{"name":"weather"},{"name":"deploy"}]}"#.to_owned()
    } else {
        let text = Value::from(format!("done, {}", caller.subject().unwrap_or("whoever you are")));
        format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#)
    };
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    ([(CONTENT_TYPE, "application/json")], answer)
}

/// Prints one line per event. `vmcp-audit-log` writes complete events as JSON.
fn print(event: Event) {
    let Event { kind, outcome, caller, target, .. } = event;
    let caller = caller.as_ref().and_then(Identity::subject).unwrap_or("anonymous");
    let name = target.name.as_deref().unwrap_or_default();
    let line = format!("{} {}: {caller} {} {name}", kind.name(), outcome.name(), &*target.method);
    println!("{}", line.trim_end());
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let issuer = Issuer::new("https://tools.example.com")?;
    println!("ann={}\nbob={}", issuer.token("ann", &["ops"])?, issuer.token("bob", &[])?);

    let known = CachedVerifier::verified(JwtVerifier::new(issuer.verifier()), Clock::system());
    let layers = ServiceBuilder::new()
        // Outermost, so that requests which authentication rejects are audited too.
        .layer(AuditLayer::new(Auditor::new(AuditSettings::default(), print)))
        .layer(AuthenticationLayer::new(BearerAuthenticator::new(known)).realm("tools"))
        .layer(DecodeLayer::new())
        .layer(AuthorizationLayer::new(Cedar::new("tools", &POLICIES, "")?));
    let application = Router::new().route("/mcp", post(tools).layer(layers));

    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, application).await?;
    Ok(())
}
