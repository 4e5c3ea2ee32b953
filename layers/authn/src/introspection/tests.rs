use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Response};
use serde_json::{Value, json};
use vmcp_core::{Body, BoxError};

use super::*;
use crate::testing::{AUDIENCE, ISSUER, clock, jwt, rules, token};
use crate::{BearerAuthenticator, JwtOrOpaque, testing};

/// Returns a client of an endpoint with a fixed response, and its request count.
fn introspection(status: u16, response: &Value) -> (IntrospectionClient, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let (response, counted) = (response.to_string(), Arc::clone(&requests));
    let client = tower::service_fn(move |_: Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let response =
            Response::builder().status(status).body(Body::from(Bytes::from(response.clone())));
        async move { Ok::<_, BoxError>(response?) }
    });
    let endpoint =
        IntrospectionClient::new("https://id.example/introspect", client, rules()).unwrap();
    (endpoint.clock(clock()), requests)
}

fn active(more: &Value) -> Value {
    let mut response = json!({"active": true, "sub": "alice", "aud": AUDIENCE});
    response.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    response
}

#[tokio::test]
async fn maps_introspected_claims_without_session() {
    let (endpoint, _) = introspection(200, &active(&json!({"groups": ["a"], "tsid": "stolen"})));
    let identity = endpoint.verify("opaque").await.unwrap();
    assert_eq!((identity.issuer(), identity.subject()), (Some(ISSUER), Some("alice")));
    assert_eq!(identity.claims().unwrap().object()["groups"], json!(["a"]));
    assert!(!identity.claims().unwrap().has("tsid"));
    assert!(identity.upstream().is_none());
    assert!(identity.token().is_some());
}

#[tokio::test]
async fn distinguishes_inactive_tokens_from_endpoint_errors() {
    for (status, response, refusal) in [
        (200, json!({"active": false}), AuthError::InvalidToken("the token is not active".into())),
        (200, active(&json!({"aud": "x"})), vmcp_jwt::TokenError::Audience.into()),
        (500, active(&json!({})), AuthError::unavailable()),
        (200, json!({"sub": "alice"}), AuthError::unavailable()),
    ] {
        let (endpoint, _) = introspection(status, &response);
        assert_eq!(endpoint.verify("opaque").await, Err(refusal), "{response}");
    }
}

#[tokio::test]
async fn never_introspects_json_web_tokens() {
    let (endpoint, requests) = introspection(200, &active(&json!({})));
    let clock = clock();
    let verifier = BearerAuthenticator::new(JwtOrOpaque::new(jwt(&clock), endpoint));
    let good = token(&testing::claims(&json!({})));
    let forged = format!("{}AAAA", &good[..good.len() - 4]);
    for (bearer, accepted, times) in [
        (good.as_str(), true, 0),
        (&forged, false, 0),
        ("opaque", true, 1),
        // These only look like one.
        ("a.b.c", true, 2),
        ("a.b.c.d", true, 3),
    ] {
        let mut headers = http::HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {bearer}").parse().unwrap());
        let response = crate::Authenticator::authenticate(&verifier, &headers).await;
        assert_eq!(
            (response.is_ok(), requests.load(Ordering::Relaxed)),
            (accepted, times),
            "{bearer}"
        );
    }
}
