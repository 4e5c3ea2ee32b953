//! Authorization by a closure.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::{ServiceBuilder, ServiceExt, service_fn};
use vmcp_authz::{AuthorizationLayer, Action};
use vmcp_core::{Generation, Identity, Item, McpRequest, Decision};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = |_: &Identity, tool: &Item<'_>, _: Action<'_>| {
        if tool.name == "weather" { Decision::Allow } else { Decision::Hide }
    };
    let service = ServiceBuilder::new().layer(AuthorizationLayer::new(policy)).service(service_fn(
        |_: Request<()>| async {
            Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::from("called")))
        },
    ));
    for tool in ["weather", "deploy"] {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}"}}}}"#
        );
        let bytes = Bytes::from(call);
        let envelope = vmcp_wire::scan(&bytes).map_err(|_| "it is a message")?;
        let mut request = Request::post("/mcp").body(())?;
        let message = McpRequest { bytes, envelope, generation: Generation::Stateless };
        request.extensions_mut().insert(message);
        let answer = service.clone().oneshot(request).await?;
        let answer = answer.into_body().collect().await?.to_bytes();
        println!("{tool}: {}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}
