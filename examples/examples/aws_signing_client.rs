//! `vmcp-aws-sts` in front of a plain HTTP client: signs each request with the credentials of the AWS role that the
//! caller's groups map to.
//!
//! STS and the service are in this file too, and print what they get. Signatures are not checked here.
//!
//! ```text
//! $ cargo run -p vmcp-examples --example aws_signing_client
//! STS: arn:aws:iam::123456789012:role/admin for ada
//! service: GET /instances signed as ASIA-OF-ADA for eu-central-1/aws-mcp
//! service: GET /volumes signed as ASIA-OF-ADA for eu-central-1/aws-mcp
//! STS: arn:aws:iam::123456789012:role/reader for bob
//! service: GET /instances signed as ASIA-OF-BOB for eu-central-1/aws-mcp
//! service: GET /instances unsigned
//! ```

use std::collections::HashMap;

use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tower::{Layer, ServiceExt};
use vmcp_aws_sts::{
    AwsStsLayer, CredentialCache, Region, RoleArn, RoleMapping, RoleMappings, RoleMatch, Sts,
};
use vmcp_core::{Body, BoxError, Caller, Clock, Identity};
use vmcp_examples::Issuer;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let stand_ins = stand_ins().await?;
    let issuer = Issuer::new("https://aws.example.com")?;

    let region = Region::try_from("eu-central-1")?;
    let admins = RoleMapping {
        role: RoleArn::try_from("arn:aws:iam::123456789012:role/admin")?,
        matches: RoleMatch::Matcher("'admins' in claims.groups".to_owned()),
        priority: None,
    };
    let others = RoleArn::try_from("arn:aws:iam::123456789012:role/reader")?;
    let roles = RoleMappings::new(Some(others), vec![admins], "groups")?;
    // `Sts::new` calls the STS endpoint of the region. Both use the HTTP client that the application already has.
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let sts = Sts::with_endpoint(&stand_ins.parse()?, &region, client);
    let layer = AwsStsLayer::new(region, roles, CredentialCache::new(sts, 10_000, Clock::system()));

    let client = layer.layer(Client::builder(TokioExecutor::new()).build_http());
    let (ada, bob) =
        (login(&issuer, "ada", "admins").await?, login(&issuer, "bob", "staff").await?);
    for (caller, path) in [
        (Caller::User(ada.clone()), "instances"),
        (Caller::User(ada), "volumes"),
        (Caller::User(bob), "instances"),
        // A health probe, for example, has no caller.
        (Caller::Gateway, "instances"),
    ] {
        let mut request =
            Request::get(format!("{stand_ins}{path}")).body(Full::<Bytes>::default())?;
        request.extensions_mut().insert(caller);
        client.clone().oneshot(request).await?;
    }
    Ok(())
}

/// Returns a user whose identity carries the identity provider's token, which the layer presents to STS.
async fn login(issuer: &Issuer, name: &str, group: &str) -> Result<Identity, BoxError> {
    let token = issuer.token(name, &[group])?;
    let claims = issuer.verifier().verify(&token).await?.claims;
    Ok(Identity::builder(Issuer::NAME, name).claims(claims).token(token.into()).build())
}

async fn stand_ins() -> Result<String, BoxError> {
    let sts = async |form: Bytes| {
        let form: HashMap<_, _> = form_urlencoded::parse(&form).collect();
        let (role, session) = (&form["RoleArn"], &form["RoleSessionName"]);
        println!("STS: {role} for {session}");
        format!(
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
             <AccessKeyId>ASIA-OF-{}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>\
             <SessionToken>token</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>\
             </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
            session.to_uppercase()
        )
    };
    let service = async |method: Method, uri: Uri, headers: HeaderMap| {
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        // Credential=KEY/DATE/REGION/SERVICE/aws4_request
        let scope = header.and_then(|value| value.split(['=', ',']).nth(1)).unwrap_or_default();
        match scope.split('/').collect::<Vec<_>>()[..] {
            [key, _, region, service, _] => {
                println!("service: {method} {uri} signed as {key} for {region}/{service}");
            }
            _ => println!("service: {method} {uri} unsigned"),
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let router = Router::new().route("/", post(sts)).fallback(service);
    tokio::spawn(async { axum::serve(listener, router).await });
    Ok(url)
}
