//! Authentication for an HTTP service: accepts only bearer tokens that the configured issuer signed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::{ServiceBuilder, ServiceExt, service_fn};
use vmcp_authn::{AuthenticationLayer, BearerAuthenticator, CachedVerifier, JwtVerifier};
use vmcp_core::{Clock, Identity};
use vmcp_jwt::{Jwk, Key, KeySet, ValidationOptions, Verifier};

const ISSUER: &str = "https://id.example";
const AUDIENCE: &str = "https://files.example";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // An issuer publishes this key; a `JwksSource` would fetch it.
    let pair = Ed25519KeyPair::generate()?;
    let key = Jwk {
        kty: "OKP".into(),
        crv: Some("Ed25519".into()),
        x: Some(URL_SAFE_NO_PAD.encode(pair.public_key())),
        ..Jwk::default()
    };
    let keys = Arc::new(KeySet::from_iter([Key::new(&key)?]));

    let verifier = Verifier::new(keys, ValidationOptions::new(ISSUER, AUDIENCE));
    let door = BearerAuthenticator::new(CachedVerifier::verified(JwtVerifier::new(verifier), Clock::system()));
    let service =
        ServiceBuilder::new().layer(AuthenticationLayer::new(door)).service(service_fn(hello));

    let until = (SystemTime::now() + Duration::from_secs(60)).duration_since(UNIX_EPOCH)?.as_secs();
    let claims = format!(r#"{{"iss":"{ISSUER}","aud":"{AUDIENCE}","sub":"alice","exp":{until}}}"#);
    let encoded =
        [r#"{"alg":"EdDSA"}"#, &claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
    let token = format!("{encoded}.{}", URL_SAFE_NO_PAD.encode(pair.sign(encoded.as_bytes())));

    let known = Request::get("/").header("authorization", format!("Bearer {token}")).body(())?;
    let answer = service.clone().oneshot(known).await?.into_body().collect().await?.to_bytes();
    let nobody = service.oneshot(Request::new(())).await?;
    println!("{}; nobody: {}", String::from_utf8_lossy(&answer), nobody.status().as_u16());
    Ok(())
}

async fn hello(request: Request<()>) -> Result<Response<Full<Bytes>>, Infallible> {
    let caller = request.extensions().get::<Identity>().and_then(Identity::subject);
    Ok(Response::new(Full::from(format!("hello {}", caller.unwrap_or("nobody")))))
}
