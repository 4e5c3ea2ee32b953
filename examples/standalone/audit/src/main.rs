//! Audit events, one per request, handled by a closure.

use std::convert::Infallible;
use std::sync::mpsc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::{ServiceBuilder, ServiceExt, service_fn};
use vmcp_audit::{AuditLayer, Auditor, AuditSettings};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (events, recorded) = mpsc::channel();
    let auditor = Auditor::new(AuditSettings::default(), move |event| _ = events.send(event));
    let service = ServiceBuilder::new().layer(AuditLayer::new(auditor)).service(service_fn(
        |_: Request<()>| async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) },
    ));
    service.oneshot(Request::new(())).await?.into_body().collect().await?;
    let event = recorded.recv()?;
    println!("{:?}: {:?}", event.kind, event.outcome);
    Ok(())
}
