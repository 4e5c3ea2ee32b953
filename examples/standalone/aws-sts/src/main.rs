//! Requests signed with the credentials of the AWS role that the caller's claims map to.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tower::{ServiceBuilder, ServiceExt, service_fn};
use vmcp_aws_sts::{AssumeError, AwsStsLayer, CredentialCache, Credentials, Region, RoleArn, RoleMappings};
use vmcp_core::{BoxError, Caller, Clock, Identity};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let reader = RoleArn::try_from("arn:aws:iam::123456789012:role/reader")?;
    let roles = RoleMappings::new(Some(reader), vec![], "groups")?;
    // Replaces `Sts::new(&region, client)`.
    let sts = |_, _| async {
        let until = SystemTime::now() + Duration::from_secs(3600);
        Credentials::new("ASIAEXAMPLE", &"secret".into(), &"token".into(), until)
            .map_err(|_| AssumeError::Unavailable { reason: "malformed" })
    };
    let cached = CredentialCache::new(sts, 100, Clock::system());
    let layer = AwsStsLayer::new(Region::try_from("eu-central-1")?, roles, cached);
    let service = ServiceBuilder::new().layer(layer).service(service_fn(
        |request: Request<Full<Bytes>>| async move {
            let signature = request.headers()["authorization"].to_str()?;
            let begin = signature.split('/').next().unwrap_or_default();
            Ok::<_, BoxError>(Response::new(Full::<Bytes>::from(begin.to_owned())))
        },
    ));
    let ada = Identity::builder("https://issuer.example", "ada").token("a.b.c".into()).build();
    let mut request = Request::get("https://service.example.com/mcp").body(Full::default())?;
    request.extensions_mut().insert(Caller::User(ada));
    let signed = service.oneshot(request).await?;
    let body = http_body_util::BodyExt::collect(signed.into_body()).await;
    let body = body.map_err(|_| "the body breaks")?.to_bytes();
    println!("signed: {}", String::from_utf8_lossy(&body));
    Ok(())
}
