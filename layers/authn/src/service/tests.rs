use http::header::CONTENT_TYPE;
use std::convert::Infallible;
use std::future::ready;
use std::sync::Mutex;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;
use tower_layer::Layer;
use tower_test::mock;
use vmcp_core::{BoxError, UpstreamTokens};
use vmcp_test_support::LogCapture;

use super::*;
use crate::testing::{AUDIENCE, ISSUER, NOW, claims, clock, jwt, token};
use crate::{
    AnonymousAuthenticator, AuthenticationFuture, AuthenticationLayer, BearerAuthenticator,
    CachedVerifier, JwtVerifier, LocalAuthenticator, ProtectedResource, ResourceOptions,
};

type Body = Full<Bytes>;

fn layer()
-> AuthenticationLayer<BearerAuthenticator<CachedVerifier<JwtVerifier<Arc<vmcp_jwt::KeySet>>>>> {
    let clock = clock();
    let inspect = CachedVerifier::verified(jwt(&clock), clock.clone());
    let rules = ResourceOptions::default();
    let resource = ProtectedResource::new(AUDIENCE, ISSUER, &["mcp:call"], rules).unwrap();
    AuthenticationLayer::new(BearerAuthenticator::new(inspect)).resource(resource).clock(clock)
}

/// Sends a request through the layer and returns the request that the inner service received.
async fn send_through<A: Authenticator>(
    layer: AuthenticationLayer<A>,
    request: Request<()>,
) -> (Response<ResponseBody<Body>>, Option<Request<()>>) {
    let got = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&got);
    let inner = tower::service_fn(move |request: Request<()>| {
        *kept.lock().unwrap() = Some(request);
        ready(Ok::<_, Infallible>(Response::new(Body::default())))
    });
    let response = layer.layer(inner).oneshot(request).await.unwrap();
    let got = got.lock().unwrap().take();
    (response, got)
}

fn bearer(token: &str) -> Request<()> {
    Request::post("/mcp").header(AUTHORIZATION, format!("bearer {token}")).body(()).unwrap()
}

fn error_of(response: &Response<ResponseBody<Body>>) -> String {
    response.headers()[WWW_AUTHENTICATE].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn serves_metadata_without_token_if_configured() {
    let request = |path: &str| Request::get(path).body(()).unwrap();
    let path = "/.well-known/oauth-protected-resource";
    let (response, inside) = send_through(layer().serve_metadata(), request(path)).await;
    assert_eq!((response.status(), inside.is_none()), (StatusCode::OK, true));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let document: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(document["resource"], AUDIENCE);
    for (layer, path) in [(layer(), path), (layer().serve_metadata(), "/mcp")] {
        let (response, _) = send_through(layer, request(path)).await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn inserts_identity_and_removes_authorization() {
    let mut request = bearer(&token(&claims(&json!({"groups": ["a"]}))));
    let request_context = RequestContext::of(request.extensions_mut());
    let (response, inside) = send_through(layer(), request).await;
    assert_eq!(response.status(), 200);
    let inside = inside.unwrap();
    assert!(!inside.headers().contains_key(AUTHORIZATION));
    let identity = inside.extensions().get::<Identity>().unwrap();
    assert_eq!((identity.issuer(), identity.subject()), (Some(ISSUER), Some("alice")));
    assert_eq!(identity.claims().unwrap().object()["groups"], json!(["a"]));
    assert!(identity.token().is_some());
    assert_eq!(request_context.identity(), Some(identity));
}

#[tokio::test]
async fn rejects_unauthenticated_requests() {
    let good = token(&claims(&json!({})));
    let mut twice = bearer(&good);
    twice.headers_mut().append(AUTHORIZATION, "Bearer x".parse().unwrap());
    let in_the_query = Request::get(format!("/mcp?access_token={good}")).body(()).unwrap();
    for (request, error) in [
        (Request::new(()), None),
        (in_the_query, None),
        (twice, Some("invalid_request")),
        (bearer("opaque"), Some("invalid_token")),
        (bearer(&token(&claims(&json!({"aud": "other"})))), Some("invalid_token")),
        (bearer(&token(&claims(&json!({"nonce": "id token"})))), Some("invalid_token")),
        (bearer(&"x".repeat(20 * 1024)), Some("invalid_request")),
    ] {
        let mut request = request;
        let request_context = RequestContext::of(request.extensions_mut());
        let (response, inside) = send_through(layer(), request).await;
        assert_eq!(response.status(), 401);
        assert!(inside.is_none());
        assert!(request_context.denied().is_some() && request_context.identity().is_none());
        let challenge = error_of(&response);
        assert!(challenge.contains("resource_metadata=\"https://mcp.example/.well-known/"));
        match error {
            Some(error) => {
                assert!(challenge.contains(&format!("error=\"{error}\"")), "{challenge}");
            }
            None => assert!(!challenge.contains("error"), "{challenge}"),
        }
    }
}

#[tokio::test]
async fn missing_scope_names_all_required_scopes() {
    let layer = layer().require_scopes(["openid", "mcp:list", "mcp:call"]);
    let with = |scope: &str| bearer(&token(&claims(&json!({"scope": scope}))));
    let mut request = with("mcp:list");
    let request_context = RequestContext::of(request.extensions_mut());
    let (response, inside) = send_through(layer.clone(), request).await;
    assert_eq!(request_context.denied(), Some("insufficient scope"));
    assert_eq!(request_context.identity().unwrap().subject(), Some("alice"));
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert!(inside.is_none());
    let challenge = error_of(&response);
    assert!(challenge.contains("scope=\"mcp:list mcp:call\", error=\"insufficient_scope\""));
    let (response, _) = send_through(layer, with("mcp:call mcp:list")).await;
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn static_identities_need_no_token() {
    let (_, inside) =
        send_through(AuthenticationLayer::new(AnonymousAuthenticator), bearer("ignored")).await;
    let inside = inside.unwrap();
    assert_eq!(inside.extensions().get::<Identity>(), Some(&Identity::anonymous()));
    assert!(!inside.headers().contains_key(AUTHORIZATION));
    let (_, inside) =
        send_through(AuthenticationLayer::new(LocalAuthenticator::new("me")), Request::new(()))
            .await;
    let identity = inside.unwrap().extensions().get::<Identity>().cloned().unwrap();
    assert_eq!(identity.subject(), Some("me"));
}

#[tokio::test]
async fn identity_provider_outage_is_503() {
    let down = |_: &HeaderMap| ready(Err(AuthError::unavailable()));
    let (response, inside) = send_through(AuthenticationLayer::new(down), bearer("x")).await;
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "5");
    assert!(inside.is_none());
}

#[tokio::test]
async fn session_claim_yields_upstream_tokens_and_is_removed() {
    struct None_;
    impl UpstreamTokens for None_ {
        fn token<'a>(
            &'a self,
            _: &'a str,
            _: vmcp_core::UpstreamKind,
        ) -> vmcp_core::UpstreamFuture<'a> {
            Box::pin(ready(Err(vmcp_core::UpstreamError::NotLinked)))
        }
    }
    let request = || bearer(&token(&claims(&json!({"tsid": "s1"}))));
    let identity = |inside: Option<Request<()>>| {
        inside.unwrap().extensions().get::<Identity>().cloned().unwrap()
    };
    let own = jwt(&clock()).upstream(|claims: &vmcp_core::Claims| {
        (claims.text("tsid") == Some("s1")).then(|| Arc::new(None_) as Arc<dyn UpstreamTokens>)
    });
    let (_, inside) =
        send_through(AuthenticationLayer::new(BearerAuthenticator::new(own)), request()).await;
    let own = identity(inside);
    assert!(own.upstream().is_some());
    assert!(!own.claims().unwrap().has("tsid"));
    // The same claim of a foreign issuer.
    let (_, inside) = send_through(layer(), request()).await;
    let foreign = identity(inside);
    assert!(foreign.upstream().is_none());
    assert!(!foreign.claims().unwrap().has("tsid"));
}

#[tokio::test]
async fn inner_challenge_gets_header() {
    for (rejection, error) in [
        (Rejection::insufficient_scope(vec!["admin".into()]), Some("insufficient_scope")),
        (Rejection::reauthentication_required("b"), Some("invalid_token")),
        (Rejection::forbidden(), None),
    ] {
        let status = rejection.status();
        let inner = tower::service_fn(move |_: Request<()>| {
            ready(Ok::<_, Infallible>(rejection.clone().into_response::<Body>(None)))
        });
        let request = bearer(&token(&claims(&json!({}))));
        let response = layer().layer(inner).oneshot(request).await.unwrap();
        assert_eq!(response.status(), status);
        let header = response.headers().get(WWW_AUTHENTICATE).map(|it| it.to_str().unwrap());
        match error {
            Some(error) => assert!(header.unwrap().contains(error), "{header:?}"),
            None => assert_eq!(header, None),
        }
    }
}

/// Returns a response whose body never ends.
fn unbounded_stream(content_type: &str) -> Response<vmcp_core::Body> {
    struct Endless;
    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = BoxError;
        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
            Poll::Pending
        }
    }
    let response = Response::builder().header(CONTENT_TYPE, content_type);
    response.body(vmcp_core::Body::wrap(Endless)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn streams_end_with_token_other_bodies_do_not() {
    const STREAM: &str = "text/event-stream; charset=utf-8";
    let lifetime = Duration::from_mins(1) + vmcp_jwt::LEEWAY;
    for (method, media, standing, ends) in [
        ("GET", STREAM, false, Some(lifetime)),
        ("POST", STREAM, true, Some(lifetime)),
        ("POST", STREAM, false, Some(lifetime + RESPONSE_GRACE_PERIOD)),
        ("POST", "application/json", false, None),
    ] {
        let inner = tower::service_fn(move |_: Request<()>| {
            let mut response = unbounded_stream(media);
            if standing {
                response.extensions_mut().insert(NotificationStream);
            }
            ready(Ok::<_, Infallible>(response))
        });
        let mut request = bearer(&token(&claims(&json!({"exp": NOW + 60}))));
        *request.method_mut() = method.parse().unwrap();
        let response = layer().layer(inner).oneshot(request).await.unwrap();
        let began = tokio::time::Instant::now();
        let mut body = match response.into_body().try_into_inner() {
            Ok(body) => {
                assert!(ends.is_none(), "{method} {media}");
                ResponseBody::new(body, None, None)
            }
            Err(body) => body,
        };
        let ended = tokio::time::timeout(Duration::from_hours(1), body.frame()).await;
        assert_eq!(ended.is_ok(), ends.is_some(), "{method} {media}");
        if let Some(ends) = ends {
            assert!(ended.unwrap().is_none());
            assert_eq!(began.elapsed(), ends, "{method} {media} {standing}");
            assert!(http_body::Body::is_end_stream(&body));
            assert!(body.frame().await.is_none());
        }
    }
}

/// Authenticator that accepts every caller after a while.
struct Slow;

impl Authenticator for Slow {
    fn authenticate<'a>(&'a self, _: &'a HeaderMap) -> AuthenticationFuture<'a> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(Identity::new("i", "s"))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn ended_session_ends_streams_and_responses() {
    for method in ["GET", "POST"] {
        let over = || tokio::time::sleep(Duration::from_secs(9));
        let caller = Identity::builder("i", "s").revocation(Arc::new(over)).build();
        let authenticate = move |_: &HeaderMap| ready(Ok(caller.clone()));
        let inner = tower::service_fn(|_: Request<()>| {
            ready(Ok::<_, Infallible>(unbounded_stream("text/event-stream")))
        });
        let mut request = bearer("t");
        *request.method_mut() = method.parse().unwrap();
        let service = AuthenticationLayer::new(authenticate).layer(inner);
        let mut body = service.oneshot(request).await.unwrap().into_body();
        let began = tokio::time::Instant::now();
        assert!(body.frame().await.is_none());
        assert_eq!(began.elapsed(), Duration::from_secs(9), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_instance_that_was_ready() {
    for slow in [true, false] {
        let (service, mut handle) = mock::pair::<Request<()>, Response<Body>>();
        handle.allow(0);
        let authenticator: Arc<dyn Authenticator> =
            if slow { Arc::new(Slow) } else { Arc::new(AnonymousAuthenticator) };
        let mut service =
            tokio_test::task::spawn(AuthenticationLayer::new(authenticator).layer(service));
        assert!(service.enter(|cx, mut service| service.poll_ready(cx)).is_pending());
        handle.allow(1);
        let ready = service.enter(|cx, mut service| service.poll_ready(cx));
        assert!(matches!(ready, Poll::Ready(Ok(()))));
        let result = tokio::spawn(service.enter(|_, mut service| service.call(bearer("x"))));
        let (_, respond) = handle.next_request().await.unwrap();
        respond.send_response(Response::new(Body::default()));
        assert_eq!(result.await.unwrap().unwrap().status(), 200);
    }
}

#[tokio::test]
async fn forwards_inner_error() {
    let inner = tower::service_fn(|_: Request<()>| {
        ready(Err::<Response<Body>, _>(std::io::Error::other("inside")))
    });
    let failed = AuthenticationLayer::new(AnonymousAuthenticator)
        .layer(inner)
        .oneshot(Request::new(()))
        .await;
    assert_eq!(failed.unwrap_err().to_string(), "inside");
}

#[tokio::test]
async fn tokens_never_appear_in_output() {
    let log = LogCapture::current_thread();

    let claim: Value = json!({"email": "canary@example.com"});
    let good = token(&claims(&claim));
    let forged = format!("{}AAAA", &good[..good.len() - 4]);
    let mut said = Vec::new();
    for token in [good.as_str(), &forged, "opaque-canary"] {
        let (response, inside) = send_through(layer(), bearer(token)).await;
        let (head, body) = response.into_parts();
        let identity = inside.and_then(|it| it.extensions().get::<Identity>().cloned());
        let body = body.collect().await.unwrap().to_bytes();
        said.push(format!("{head:?} {body:?} {identity:?} {:?}", layer()));
    }
    tracing::info!("the log is heard");
    said.push(log.text());
    let said = said.join("\n");
    assert!(said.contains("the log is heard"), "{said}");
    for secret in ["canary", good.as_str(), &forged] {
        assert!(!said.contains(secret), "{said}");
    }
}

/// Verifier for one token; counts its calls.
#[derive(Clone, Default)]
struct Endpoint(Arc<std::sync::atomic::AtomicUsize>);

impl crate::TokenVerifier for Endpoint {
    fn verify<'a>(&'a self, token: &'a str) -> AuthenticationFuture<'a> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let known = token.starts_with("good");
        Box::pin(ready(if known {
            Ok(Identity::new(ISSUER, token))
        } else {
            Err(AuthError::InvalidToken("the token is not active".into()))
        }))
    }
}

#[tokio::test]
async fn limits_invalid_opaque_tokens_by_address() {
    let clock = clock();
    let endpoint = Endpoint::default();
    let cached = CachedVerifier::introspected(endpoint.clone(), clock.clone());
    let layer = AuthenticationLayer::new(BearerAuthenticator::new(cached)).clock(clock.clone());
    let send = async |address: [u8; 4], token: &str| {
        let mut request = bearer(token);
        request.extensions_mut().insert(SocketAddr::from((address, 4711)));
        send_through(layer.clone(), request).await.0
    };
    let (own, other) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    assert_eq!(send(own, "good").await.status(), 200);
    // Valid tokens are not counted.
    for number in 0..500 {
        assert_eq!(send(own, &format!("good {number}").replace(' ', "-")).await.status(), 200);
    }
    let asked = || endpoint.0.load(std::sync::atomic::Ordering::Relaxed);
    let before = asked();
    let mut statuses = Vec::new();
    for number in 0..1000 {
        statuses.push(send(own, &format!("random-{number}")).await.status().as_u16());
    }
    assert_eq!(asked() - before, 100);
    assert_eq!((statuses[99], statuses[100], statuses[999]), (401, 429, 429));
    let refused = send(own, "random").await;
    assert_eq!(refused.headers()["retry-after"], "1");
    assert!(!refused.headers().contains_key(WWW_AUTHENTICATE));
    // Cached tokens and other addresses are unaffected.
    assert_eq!(send(own, "good").await.status(), 200);
    assert_eq!(send(other, "good-one").await.status(), 200);
    assert_eq!(send(other, "random").await.status(), 401);
    clock.advance(Duration::from_secs(1));
    assert_eq!(send(own, "good-later").await.status(), 200);
}
