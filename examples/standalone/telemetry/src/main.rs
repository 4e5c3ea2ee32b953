//! Metrics of an HTTP service in the Prometheus format.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};
use tower::{ServiceBuilder, ServiceExt, service_fn};
use vmcp_telemetry::{TelemetryOptions, Recorder};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let registry = Registry::new();
    let reader = opentelemetry_prometheus::exporter().with_registry(registry.clone()).build()?;
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let meter = Some(provider.meter("mine"));
    let recorder = Recorder::new(TelemetryOptions { server: "mine".to_owned(), meter, ..TelemetryOptions::default() });

    let service = ServiceBuilder::new().layer(recorder.server_layer()).service(service_fn(
        |_: Request<()>| async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) },
    ));
    service.oneshot(Request::post("/mcp").body(())?).await?.into_body().collect().await?;
    let text = TextEncoder::new().encode_to_string(&registry.gather())?;
    println!("requests are counted: {}", text.contains("vmcp_mcp_requests_total"));
    Ok(())
}
