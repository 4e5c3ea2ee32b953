//! A service that fails is left alone.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tower::{ServiceBuilder, ServiceExt, service_fn};
use vmcp_breaker::{Breaker, BreakerLayer, Open, Settings};
use vmcp_core::Backend;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), vmcp_core::BoxError> {
    let settings = Settings::new(1, Duration::from_secs(60))?;
    let breaker = Breaker::new(Backend::new("weather"), settings);
    let service = ServiceBuilder::new().layer(BreakerLayer::new(breaker)).service(service_fn(
        |_: Request<()>| async {
            let mut response = Response::new(Full::<Bytes>::default());
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            Ok::<_, std::io::Error>(response)
        },
    ));
    let first = service.clone().oneshot(Request::post("/").body(())?).await?;
    let second =
        service.oneshot(Request::post("/").body(())?).await.err().ok_or("it is let through")?;
    println!("first {}, then open: {}", first.status().as_u16(), second.is::<Open>());
    Ok(())
}
