//! Token exchange: the backend receives the token that a token endpoint issues for the caller's token.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::{ServiceBuilder, ServiceExt, service_fn};
use vmcp_core::{Body, BoxError, Caller, Clock, Identity};
use vmcp_token_exchange::{
    CachedExchange, OAuthClient, EndpointSettings, TokenEndpoint, TokenExchangeLayer, TokenUrl,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let settings = EndpointSettings::new(TokenUrl::new("https://idp.example/token")?)
        .client(OAuthClient::basic("gateway", &"s3cr3t".to_owned().into())?)
        .audience("files");
    let endpoint = TokenEndpoint::new(service_fn(token_endpoint), settings, Clock::system());
    let layer = TokenExchangeLayer::new(CachedExchange::new(endpoint, Clock::system()));
    let service =
        ServiceBuilder::new().layer(layer).service(service_fn(|request: Request<()>| async move {
            Ok::<_, BoxError>(Response::new(request.headers()["authorization"].clone()))
        }));
    let ann = Identity::builder("https://idp.example", "ann").token("inbound".to_owned().into());
    let mut request = Request::new(());
    request.extensions_mut().insert(Caller::User(ann.build()));
    let seen = service.oneshot(request).await?.into_body();
    println!("authorization: {}", seen.to_str()?);
    Ok(())
}

/// HTTP client substitute that responds like an authorization server.
async fn token_endpoint(request: Request<Body>) -> Result<Response<Full<Bytes>>, BoxError> {
    let form = request.into_body().collect().await?.to_bytes();
    let form = std::str::from_utf8(&form)?;
    let whole = ["subject_token=inbound", "audience=files"].iter().all(|part| form.contains(part));
    let token = if whole { "fresh" } else { "wrong" };
    let answer = format!(r#"{{"access_token":"{token}","token_type":"Bearer","expires_in":300}}"#);
    Ok(Response::builder().header("content-type", "application/json").body(Full::from(answer))?)
}
