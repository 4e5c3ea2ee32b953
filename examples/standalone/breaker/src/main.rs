//! A circuit breaker in front of a failing service.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tower::{ServiceBuilder, ServiceExt, service_fn};
use vmcp_breaker::{CircuitHandle, CircuitBreakerLayer, CircuitOpen, CircuitSettings};
use vmcp_core::Backend;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), vmcp_core::BoxError> {
    let settings = CircuitSettings::new(1, Duration::from_secs(60))?;
    let breaker = CircuitHandle::new(Backend::new("weather"), settings);
    let service = ServiceBuilder::new().layer(CircuitBreakerLayer::new(breaker)).service(service_fn(
        |_: Request<()>| async {
            let mut response = Response::new(Full::<Bytes>::default());
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            Ok::<_, std::io::Error>(response)
        },
    ));
    let first = service.clone().oneshot(Request::post("/").body(())?).await?;
    let second =
        service.oneshot(Request::post("/").body(())?).await.err().ok_or("it is let through")?;
    println!("first {}, then open: {}", first.status().as_u16(), second.is::<CircuitOpen>());
    Ok(())
}
