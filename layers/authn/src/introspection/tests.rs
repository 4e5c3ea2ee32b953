use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Response};
use serde_json::{Value, json};
use vmcp_core::{Body, BoxError};

use super::*;
use crate::testing::{AUDIENCE, ISSUER, clock, jwt, rules, token};
use crate::{Bearer, ByShape, testing};

/// An endpoint that always answers the same, and counts how often it is asked.
fn introspection(status: u16, answer: &Value) -> (Introspection, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let (answer, counted) = (answer.to_string(), Arc::clone(&asked));
    let client = tower::service_fn(move |_: Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let answer =
            Response::builder().status(status).body(Body::from(Bytes::from(answer.clone())));
        async move { Ok::<_, BoxError>(answer?) }
    });
    let endpoint = Introspection::new("https://id.example/introspect", client, rules()).unwrap();
    (endpoint.clock(clock()), asked)
}

fn active(more: &Value) -> Value {
    let mut answer = json!({"active": true, "sub": "alice", "aud": AUDIENCE});
    answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    answer
}

#[tokio::test]
async fn the_bearer_is_who_the_issuer_says_and_opens_no_session() {
    let (endpoint, _) = introspection(200, &active(&json!({"groups": ["a"], "tsid": "stolen"})));
    let identity = endpoint.inspect("opaque").await.unwrap();
    assert_eq!((identity.issuer(), identity.subject()), (Some(ISSUER), Some("alice")));
    assert_eq!(identity.claims().unwrap().object()["groups"], json!(["a"]));
    assert!(!identity.claims().unwrap().has("tsid"));
    assert!(identity.upstream().is_none());
    assert!(identity.token().is_some());
}

#[tokio::test]
async fn a_token_that_counts_for_nothing_and_an_endpoint_that_does_not_say_are_told_apart() {
    for (status, answer, refusal) in [
        (200, json!({"active": false}), Refusal::InvalidToken("the token is not active".into())),
        (200, active(&json!({"aud": "x"})), vmcp_jwt::TokenFault::Audience.into()),
        (500, active(&json!({})), Refusal::unavailable()),
        (200, json!({"sub": "alice"}), Refusal::unavailable()),
    ] {
        let (endpoint, _) = introspection(status, &answer);
        assert_eq!(endpoint.inspect("opaque").await, Err(refusal), "{answer}");
    }
}

#[tokio::test]
async fn a_json_web_token_is_never_asked_about() {
    let (endpoint, asked) = introspection(200, &active(&json!({})));
    let clock = clock();
    let inspect = Bearer::new(ByShape::new(jwt(&clock), endpoint));
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
        let answer = crate::Authenticate::authenticate(&inspect, &headers).await;
        assert_eq!((answer.is_ok(), asked.load(Ordering::Relaxed)), (accepted, times), "{bearer}");
    }
}
