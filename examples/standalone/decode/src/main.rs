//! An HTTP service that logs the called tool without parsing MCP itself; the layer rejects bodies that are not MCP
//! messages.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tower::{ServiceBuilder, ServiceExt, service_fn};
use vmcp_core::McpRequest;
use vmcp_decode::DecodeLayer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let inside = service_fn(|request: Request<Full<Bytes>>| async move {
        let message = request.extensions().get::<McpRequest>();
        let method = message.map(|message| message.method().into_owned()).unwrap_or_default();
        println!("asked for: {method}");
        Ok::<_, Infallible>(Response::new(Bytes::new()))
    });
    let service = ServiceBuilder::new().layer(DecodeLayer::new()).service(inside);
    for body in [r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, r#"{"id":1,"id":2}"#] {
        let request = Request::post("/mcp").header("content-type", "application/json");
        let answer = service.clone().oneshot(request.body(Full::<Bytes>::from(body))?).await?;
        println!("{}", answer.status().as_u16());
    }
    Ok(())
}
