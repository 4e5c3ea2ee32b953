//! A credential header on every outgoing request.

use http::{Request, Response};
use tower::{ServiceBuilder, ServiceExt, service_fn};
use vmcp_header_injection::{Credential, HeaderInjectionLayer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let credential = Credential::fixed(&"s3cr3t".to_owned().into())?;
    let layer = HeaderInjectionLayer::new(credential).header("x-api-key".parse()?);
    let service =
        ServiceBuilder::new().layer(layer).service(service_fn(|request: Request<()>| async move {
            Ok::<_, std::io::Error>(Response::new(request.headers()["x-api-key"].clone()))
        }));
    let seen = service.oneshot(Request::new(())).await?.into_body();
    println!("x-api-key: {}", seen.to_str()?);
    Ok(())
}
