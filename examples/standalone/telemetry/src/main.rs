//! Metrics of an HTTP service, as Prometheus reads them.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::{ServiceBuilder, ServiceExt, service_fn};
use vmcp_telemetry::{Settings, Telemetry};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings { prometheus: true, ..Settings::default() };
    let telemetry = Telemetry::builder(settings).build()?;
    let service = ServiceBuilder::new().layer(telemetry.incoming()).service(service_fn(
        |_: Request<()>| async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) },
    ));
    service.oneshot(Request::post("/mcp").body(())?).await?.into_body().collect().await?;
    let text = telemetry.scrape().ok_or("nothing is shown")?.text();
    let text = std::str::from_utf8(&text)?;
    println!("requests are counted: {}", text.contains("vmcp_mcp_requests_total"));
    Ok(())
}
