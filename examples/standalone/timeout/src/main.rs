//! A bounded wait for an HTTP service's next frame.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tower::{ServiceBuilder, ServiceExt, service_fn};
use vmcp_timeout::{Elapsed, TimeoutLayer};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let silent_service = service_fn(|_: Request<()>| async {
        std::future::pending::<()>().await;
        Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::default()))
    });
    let service =
        ServiceBuilder::new().layer(TimeoutLayer::new(Duration::from_millis(10))).service(silent_service);
    let error = service.oneshot(Request::new(())).await.err().ok_or("it is silent")?;
    println!("elapsed: {}", error.is::<Elapsed>());
    Ok(())
}
