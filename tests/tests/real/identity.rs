//! Callers authenticated by an independent identity provider.

use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use secrecy::SecretString;
use serde_json::Value;
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};
use vmcp_authn::{
    AuthenticationLayer, BearerAuthenticator, CachedVerifier, IntrospectionClient, JwtOrOpaque,
    JwtVerifier, ResponseBody,
};
use vmcp_core::{Body, Clock, Identity};
use vmcp_egress::{Egress, FetchPolicy, Fetcher};
use vmcp_jwt::{JwksSource, ValidationOptions, Verifier};
use vmcp_tests::counterparts::{IdentityProvider, skipped};

type Guarded = BoxCloneSyncService<Request<()>, Response<ResponseBody<Full<Bytes>>>, Infallible>;

fn fetcher(policy: FetchPolicy) -> Fetcher {
    Fetcher::new(Egress::default(), policy).unwrap()
}

fn secret(name: &str) -> String {
    format!("{name}: s3cr3t+/%")
}

/// Returns a token of alice's, of this kind.
async fn token(provider: &IdentityProvider, kind: &str) -> String {
    let credentials = BASE64_STANDARD.encode("alice:alice%3A+s3cr3t%2B%2F%25");
    let form = format!("grant_type=client_credentials&scope=mcp:call&resource=urn:token:{kind}");
    let request = Request::post(format!("{}/token", provider.issuer()))
        .header("authorization", format!("Basic {credentials}"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(Bytes::from(form)))
        .unwrap();
    let answer = fetcher(FetchPolicy::configured()).fetch(request).await.unwrap();
    let answer: Value = serde_json::from_slice(answer.body().bytes().unwrap()).unwrap();
    answer["access_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Returns a service that responds with the caller's subject and groups, behind the complete authentication.
fn guarded(provider: &IdentityProvider, clock: &Clock) -> Guarded {
    let (ours, theirs) = (fetcher(FetchPolicy::configured()), fetcher(FetchPolicy::supplied()));
    let issuer = provider.issuer();
    let rules = ValidationOptions::new(&issuer, "https://mcp.example/mcp");
    let keys = JwksSource::discover(&issuer, ours.clone(), theirs, clock.clone()).unwrap();
    let verifier = Verifier::new(keys, rules.clone()).clock(clock.clone());
    let url = format!("{issuer}/token/introspection");
    let introspection = IntrospectionClient::new(&url, ours, rules)
        .unwrap()
        .credentials("gateway", &SecretString::from(secret("gateway")))
        .clock(clock.clone());
    let inspect = JwtOrOpaque::new(
        CachedVerifier::verified(JwtVerifier::new(verifier), clock.clone()),
        CachedVerifier::introspected(introspection, clock.clone()),
    );
    let layer =
        AuthenticationLayer::new(BearerAuthenticator::new(inspect)).require_scopes(["mcp:call"]);
    let echo = service_fn(|request: Request<()>| async move {
        let identity = request.extensions().get::<Identity>().unwrap();
        let groups = &identity.claims().unwrap().object()["groups"];
        let said = format!("{} {groups}", identity.subject().unwrap());
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(said))))
    });
    BoxCloneSyncService::new(layer.clock(clock.clone()).layer(echo))
}

async fn status(service: &Guarded, token: &str) -> u16 {
    let request = Request::get("/").header("authorization", format!("Bearer {token}"));
    let response = service.clone().oneshot(request.body(()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    if status == 200 {
        let body = vmcp_core::collect_limited(response.into_body(), 100).await.unwrap();
        assert_eq!(body, "alice [\"ops\"]");
    }
    status
}

#[tokio::test(flavor = "multi_thread")]
async fn provider_tokens_remain_valid_through_rotation_and_outage() {
    if skipped() {
        return;
    }
    let mut provider = IdentityProvider::start().await.unwrap();
    let clock = Clock::manual(SystemTime::now());
    let service = guarded(&provider, &clock);
    let mut known = Vec::new();
    for kind in ["RS256", "PS256", "ES256", "Ed25519", "opaque"] {
        let token = token(&provider, kind).await;
        assert_eq!(status(&service, &token).await, 200, "{kind}");
        if kind != "opaque" {
            known.push(token);
        }
    }
    assert_eq!(status(&service, &token(&provider, "foreign").await).await, 401);
    assert_eq!(status(&service, "made-up").await, 401);

    // New keys are fetched for the first token that they sign; the old keys remain valid.
    provider.rotate().await.unwrap();
    let (unseen, late) = (token(&provider, "opaque").await, token(&provider, "RS256").await);
    for kind in ["RS256", "ES256"] {
        let token = token(&provider, kind).await;
        assert_eq!(status(&service, &token).await, 200, "{kind} after the rotation");
        known.push(token);
    }
    for token in &known {
        assert_eq!(status(&service, token).await, 200);
    }

    // Without the provider, only tokens signed with unknown keys are rejected.
    provider.rotate().await.unwrap();
    let of_new_key = token(&provider, "RS256").await;
    provider.stop().await.unwrap();
    clock.advance(Duration::from_secs(31));
    for token in known.iter().chain([&late]) {
        assert_eq!(status(&service, token).await, 200);
    }
    assert_eq!(status(&service, &of_new_key).await, 503);
    assert_eq!(status(&service, &unseen).await, 503);
}
