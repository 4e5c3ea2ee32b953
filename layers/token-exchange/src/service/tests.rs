use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http_body_util::Full;
use secrecy::{ExposeSecret, SecretString};
use tokio_test::{assert_pending, assert_ready, assert_ready_ok};
use tower::{Layer, ServiceExt, service_fn};
use tower_test::mock::{self, Handle};
use vmcp_core::{
    Body, Clock, Identity, UpstreamError, UpstreamFuture, UpstreamKind, UpstreamToken,
    UpstreamTokens, cause_ref,
};
use vmcp_test_support::LogCapture;

use super::*;
use crate::{
    CachedExchange, EndpointError, EndpointSettings, ExchangeError, NoRetry, OAuthClient,
    RetryOnUnauthorized, TokenEndpoint, TokenUrl,
};

type Text = Full<Bytes>;
type Peer = Handle<Request<Text>, Response<()>>;

struct FakeTokens(Option<Result<&'static str, UpstreamError>>);

impl UpstreamTokens for FakeTokens {
    fn token<'a>(&'a self, provider: &'a str, kind: UpstreamKind) -> UpstreamFuture<'a> {
        assert_eq!((provider, kind), ("corp", UpstreamKind::Id));
        Box::pin(async move {
            let Some(pending_request) = self.0 else { return std::future::pending().await };
            pending_request
                .map(|value| UpstreamToken { value: value.to_owned().into(), expires_at: None })
        })
    }
}

fn user(name: &str, token: &str) -> Caller {
    Caller::User(Identity::builder("https://idp", name).token(token.to_owned().into()).build())
}

fn request(caller: Option<Caller>) -> Request<Text> {
    let mut request = Request::new(Text::from("{}"));
    let headers = request.headers_mut();
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer inbound"));
    headers.insert(PROXY_AUTHORIZATION, HeaderValue::from_static("Basic inbound"));
    headers.insert("x-token", HeaderValue::from_static("of the client"));
    request.extensions_mut().insert(Backend::new("files"));
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    request
}

/// Exchanges `abc` for `new-abc-1`, then `new-abc-2`.
fn numbered_exchange() -> impl Exchange {
    let count = AtomicUsize::new(0);
    move |subject: Subject| {
        let count = count.fetch_add(1, Ordering::Relaxed) + 1;
        let token = format!("new-{}-{count}", subject.expose_token());
        async move { Ok(AccessToken::new(&token.into(), None)?) }
    }
}

fn cached_layer() -> TokenExchangeLayer<CachedExchange<impl Exchange>> {
    TokenExchangeLayer::new(CachedExchange::new(numbered_exchange(), Clock::system()))
}

/// Sends one request to a backend with the given statuses and returns the requests that arrived.
async fn send<X: Exchange, A: RetryPolicy<Text>>(
    layer: &TokenExchangeLayer<X, A>,
    request: Request<Text>,
    statuses: &[u16],
) -> (Vec<Request<Text>>, Response<()>) {
    let (inner, mut peer): (_, Peer) = mock::pair();
    let backend = async {
        let mut arrived = Vec::new();
        for status in statuses {
            let (request, responder) = peer.next_request().await.unwrap();
            responder.send_response(Response::builder().status(*status).body(()).unwrap());
            arrived.push(request);
        }
        arrived
    };
    let (response, arrived) = tokio::join!(layer.layer(inner).oneshot(request), backend);
    assert!(peer.next_request().await.is_none(), "it was sent once more");
    (arrived, response.unwrap())
}

/// Returns the error of a request that must not be sent.
async fn error<X: Exchange>(
    layer: TokenExchangeLayer<X>,
    caller: Option<Caller>,
) -> CredentialErrorKind {
    let (inner, mut peer): (_, Peer) = mock::pair();
    let error = layer.layer(inner).oneshot(request(caller)).await.unwrap_err();
    assert!(peer.next_request().await.is_none(), "it was sent");
    let error = cause_ref::<CredentialError>(error.as_ref()).unwrap();
    assert_eq!(error.backend.name(), "files");
    error.kind.clone()
}

fn authorization(request: &Request<Text>) -> &str {
    let mut values = request.headers().get_all(AUTHORIZATION).iter();
    let value = values.next().map_or("", |value| value.to_str().unwrap());
    assert!(values.next().is_none());
    value
}

#[tokio::test]
async fn exchanged_token_replaces_token_of_caller() {
    let (arrived, _) = send(&cached_layer(), request(Some(user("ann", "abc"))), &[200]).await;
    assert_eq!(authorization(&arrived[0]), "Bearer new-abc-1");
    assert!(arrived[0].headers()[AUTHORIZATION].is_sensitive());
    assert!(!arrived[0].headers().contains_key(PROXY_AUTHORIZATION));
}

#[tokio::test]
async fn custom_header_still_removes_client_authorization() {
    let layer = cached_layer().header(HeaderName::from_static("x-token"));
    let (arrived, _) = send(&layer, request(Some(user("ann", "abc"))), &[200]).await;
    assert_eq!(arrived[0].headers()["x-token"], "Bearer new-abc-1");
    assert_eq!(authorization(&arrived[0]), "");
}

#[tokio::test]
async fn fails_without_caller_or_token() {
    let nameless = Caller::User(Identity::anonymous());
    let tokenless = Caller::User(Identity::new("https://idp", "ann"));
    for caller in [None, Some(nameless.clone()), Some(tokenless)] {
        assert_eq!(error(cached_layer(), caller).await, CredentialErrorKind::NoCaller);
    }
    let upstream = cached_layer().upstream("corp", UpstreamKind::Id);
    for caller in [None, Some(nameless)] {
        assert_eq!(error(upstream.clone(), caller).await, CredentialErrorKind::NoCaller);
    }
}

#[tokio::test(start_paused = true)]
async fn exchanges_upstream_token() {
    let layer = || cached_layer().upstream("corp", UpstreamKind::Id);
    let caller = |pending_request| {
        let own = Identity::builder("https://idp", "ann").token("own".to_owned().into());
        Caller::User(own.upstream(Arc::new(FakeTokens(pending_request))).build())
    };
    let (arrived, _) = send(&layer(), request(Some(caller(Some(Ok("idt"))))), &[200]).await;
    assert_eq!(authorization(&arrived[0]), "Bearer new-idt-1");

    let absent = CredentialErrorKind::NoUpstreamToken { provider: "corp".into() };
    assert_eq!(error(layer(), Some(user("ann", "own"))).await, absent);
    assert_eq!(error(layer(), Some(caller(Some(Err(UpstreamError::NotLinked))))).await, absent);
    for pending_request in [Some(Err(UpstreamError::Unavailable)), None] {
        let fault = error(layer(), Some(caller(pending_request))).await;
        assert!(matches!(fault, CredentialErrorKind::Unavailable { .. }), "{fault}");
    }
}

#[tokio::test]
async fn failed_exchange_is_credential_error() {
    let rejected_token = ExchangeError::Rejected { code: "invalid_target".into() };
    let down =
        ExchangeError::from(EndpointError::Unreachable(Arc::new(io::Error::other("10.0.0.7"))));
    for (fault, expected) in [
        (rejected_token, CredentialErrorKind::Rejected { reason: "invalid_target".into() }),
        (down, CredentialErrorKind::Unavailable { reason: "failed to reach the token endpoint" }),
    ] {
        let layer = TokenExchangeLayer::new(move |_: Subject| {
            let fault = fault.clone();
            async move { Err(fault) }
        });
        assert_eq!(error(layer, Some(user("ann", "abc"))).await, expected);
    }
}

#[tokio::test]
async fn gateway_without_secret_sends_no_token() {
    let layer = cached_layer().header(HeaderName::from_static("x-token"));
    for layer in [layer.clone(), layer.upstream("corp", UpstreamKind::Id)] {
        let (arrived, response) = send(&layer, request(Some(Caller::Gateway)), &[401]).await;
        assert_eq!(authorization(&arrived[0]), "");
        assert!(!arrived[0].headers().contains_key("x-token"));
        assert_eq!(response.status(), 401);
    }
}

#[tokio::test]
async fn gateway_with_secret_uses_client_credentials() {
    let count = Arc::new(AtomicUsize::new(0));
    let client = service_fn(move |_: Request<Body>| {
        let token = count.fetch_add(1, Ordering::Relaxed) + 1;
        let body = format!(r#"{{"access_token":"own-{token}","token_type":"Bearer"}}"#);
        let response = Response::builder().header("content-type", "application/json");
        async move { response.body(Text::from(body)) }
    });
    let settings = EndpointSettings::new(TokenUrl::new("https://idp.example/").unwrap())
        .client(OAuthClient::basic("gate", &"secret".to_owned().into()).unwrap());
    let endpoint = TokenEndpoint::new(client, settings, Clock::system());
    let layer = TokenExchangeLayer::new(CachedExchange::new(endpoint, Clock::system()))
        .retry_on_unauthorized();
    for (statuses, tokens) in [(&[200][..], &["own-1"][..]), (&[401, 200], &["own-1", "own-2"])] {
        let (arrived, _) = send(&layer, request(Some(Caller::Gateway)), statuses).await;
        for (request, token) in arrived.iter().zip(tokens) {
            assert_eq!(authorization(request), format!("Bearer {token}"));
        }
    }
}

#[tokio::test]
async fn retries_with_fresh_token_after_401() {
    let layer = cached_layer().retry_on_unauthorized();
    let ann = || request(Some(user("ann", "abc")));
    let (arrived, response) = send(&layer, ann(), &[401, 200]).await;
    assert_eq!(response.status(), 200);
    let tokens: Vec<_> = arrived.iter().map(authorization).collect();
    assert_eq!(tokens, ["Bearer new-abc-1", "Bearer new-abc-2"]);
    for request in &arrived {
        assert_eq!(request.extensions().get::<Backend>().unwrap().name(), "files");
    }
    // From now on, a backend that rejects every token gets one request each.
    let (arrived, response) = send(&layer, ann(), &[401]).await;
    assert_eq!(
        (authorization(&arrived[0]), response.status()),
        ("Bearer new-abc-2", StatusCode::UNAUTHORIZED)
    );
}

#[tokio::test]
async fn returns_second_401() {
    let layer = cached_layer().retry_on_unauthorized();
    let (_, response) = send(&layer, request(Some(user("ann", "abc"))), &[401, 401]).await;
    assert_eq!(response.status(), 401);
}

#[tokio::test]
async fn without_retry_next_request_gets_fresh_token() {
    let layer = cached_layer();
    let ann = || request(Some(user("ann", "abc")));
    send(&layer, ann(), &[401]).await;
    let (arrived, _) = send(&layer, ann(), &[200]).await;
    assert_eq!(authorization(&arrived[0]), "Bearer new-abc-2");
}

#[tokio::test]
async fn uncached_exchange_is_not_retried() {
    let layer = TokenExchangeLayer::new(numbered_exchange()).retry_on_unauthorized();
    send(&layer, request(Some(user("ann", "abc"))), &[401]).await;
}

#[tokio::test]
async fn keeps_tokens_of_interleaved_users_apart() {
    let layer = cached_layer();
    for round in 0..20 {
        let (name, token) = if round % 2 == 0 { ("ann", "a") } else { ("bob", "b") };
        let (arrived, _) = send(&layer, request(Some(user(name, token))), &[200]).await;
        assert!(authorization(&arrived[0]).starts_with(&format!("Bearer new-{token}-")));
    }
}

#[test]
fn calls_instance_that_was_ready() {
    let (mut service, mut peer) =
        mock::spawn_layer::<Request<Text>, Response<()>, _>(cached_layer().retry_on_unauthorized());
    peer.allow(0);
    assert_pending!(service.poll_ready());
    peer.allow(1);
    assert_ready_ok!(service.poll_ready());
    // The mock panics if an instance is called that was not polled ready.
    let mut response = tokio_test::task::spawn(service.call(request(Some(user("ann", "abc")))));
    assert_pending!(response.poll());
    let (_, responder) = assert_ready!(peer.poll_request()).unwrap();
    responder.send_response(Response::builder().status(401).body(()).unwrap());
    // The retry waits until the instance is ready again.
    assert_pending!(response.poll());
    assert_pending!(peer.poll_request());
    peer.allow(1);
    assert!(response.is_woken());
    assert_pending!(response.poll());
    let (retry, responder) = assert_ready!(peer.poll_request()).unwrap();
    assert_eq!(authorization(&retry), "Bearer new-abc-2");
    responder.send_response(Response::new(()));
    assert_ready_ok!(response.poll());
}

#[test]
fn accepts_any_body_without_retry() {
    struct Stream;
    let request = Request::new(Stream);
    assert!(NoRetry.clone_request(&request).is_none());
    assert!(RetryOnUnauthorized.clone_request(&Request::new(())).is_some());
}

/// Runs the whole layer with an authorization server that echoes its input.
#[tokio::test(start_paused = true)]
async fn secrets_never_appear_in_output() {
    let log = LogCapture::current_thread();
    let clock = Clock::manual(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
    let exchange_future = Arc::new(AtomicUsize::new(0));
    let client = service_fn(move |_: Request<Body>| {
        let (status, body) = match exchange_future.fetch_add(1, Ordering::Relaxed) {
            0 => (200, r#"{"access_token":"canary-new","token_type":"Bearer","expires_in":3600}"#),
            1 => (400, r#"{"error":"canary-abc","error_description":"canary-secret"}"#),
            _ => (200, r#"{"access_token":["canary-abc"]}"#),
        };
        let response =
            Response::builder().status(status).header("content-type", "application/json");
        async move { response.body(Text::from(body)) }
    });
    let settings = EndpointSettings::new(TokenUrl::new("https://idp.example/").unwrap())
        .client(OAuthClient::post("gate", &"canary-secret".to_owned().into()).unwrap());
    let exchange =
        CachedExchange::new(TokenEndpoint::new(client, settings, clock.clone()), clock.clone());
    let mut shown = vec![format!("{exchange:?}")];
    let layer = TokenExchangeLayer::new(exchange);
    let ann = || request(Some(user("ann", "canary-abc")));
    let (arrived, _) = send(&layer, ann(), &[200]).await;
    shown.push(format!("{layer:?} {:?} {:?}", arrived[0].headers(), arrived[0].extensions()));
    // The background refresh fails and logs the error.
    clock.advance(Duration::from_mins(50));
    send(&layer, ann(), &[200]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..2 {
        clock.advance(Duration::from_hours(1));
        let (inner, _peer): (_, Peer) = mock::pair();
        let failure = layer.layer(inner).oneshot(ann()).await.unwrap_err();
        let mut error: Option<&dyn std::error::Error> = Some(failure.as_ref());
        while let Some(one) = error {
            shown.push(format!("{one} {one:?}"));
            error = one.source();
        }
    }
    let logged = log.text();
    assert!(logged.contains("token_refresh_failed"), "{logged}");
    for text in shown.iter().chain([&logged]) {
        assert!(!text.contains("canary"), "{text}");
    }
}

/// Upstream tokens: `old`, then the given result of a refresh.
struct RefreshingTokens(Result<&'static str, UpstreamError>, AtomicUsize);

impl UpstreamTokens for RefreshingTokens {
    fn token<'a>(&'a self, _: &'a str, _: UpstreamKind) -> UpstreamFuture<'a> {
        let token = UpstreamToken { value: "old".into(), expires_at: None };
        Box::pin(std::future::ready(Ok(token)))
    }

    fn refresh<'a>(
        &'a self,
        provider: &'a str,
        kind: UpstreamKind,
        rejected_token: &'a SecretString,
    ) -> UpstreamFuture<'a> {
        assert_eq!(
            (provider, kind, rejected_token.expose_secret()),
            ("corp", UpstreamKind::Access, "old")
        );
        self.1.fetch_add(1, Ordering::SeqCst);
        let pending_request =
            self.0.map(|value| UpstreamToken { value: value.into(), expires_at: None });
        Box::pin(std::future::ready(pending_request))
    }
}

/// Exchange that rejects `old` with this code.
fn rejecting(code: &'static str) -> impl Exchange {
    move |subject: Subject| async move {
        if subject.expose_token() == "old" {
            return Err(ExchangeError::Rejected { code: code.into() });
        }
        Ok(AccessToken::new(&format!("for-{}", subject.expose_token()).as_str().into(), None)?)
    }
}

fn linked(keeper: &Arc<RefreshingTokens>) -> Request<Text> {
    let keeper = Arc::clone(keeper) as Arc<dyn UpstreamTokens>;
    let identity = Identity::builder("https://idp", "ann").token("abc".into()).upstream(keeper);
    request(Some(Caller::User(identity.build())))
}

#[tokio::test]
async fn refreshes_rejected_upstream_token_once() {
    let keeper = Arc::new(RefreshingTokens(Ok("new"), AtomicUsize::default()));
    let layer = TokenExchangeLayer::new(rejecting("invalid_grant")).retry_on_unauthorized();
    let layer = layer.upstream("corp", UpstreamKind::Access);
    let (arrived, _) = send(&layer, linked(&keeper), &[200]).await;
    assert_eq!(authorization(&arrived[0]), "Bearer for-new");
    assert_eq!(keeper.1.load(Ordering::SeqCst), 1);
    // A refreshed token that is rejected too is not refreshed again.
    let keeper = Arc::new(RefreshingTokens(Ok("old"), AtomicUsize::default()));
    assert!(matches!(fault_of(&layer, &keeper).await, CredentialErrorKind::Rejected { .. }));
    assert_eq!(keeper.1.load(Ordering::SeqCst), 1);
}

/// Returns the fault of a request that is not sent.
async fn fault_of<X: Exchange, A: RetryPolicy<Text>>(
    layer: &TokenExchangeLayer<X, A>,
    keeper: &Arc<RefreshingTokens>,
) -> CredentialErrorKind {
    let (inner, mut peer): (_, Peer) = mock::pair();
    let error = layer.layer(inner).oneshot(linked(keeper)).await.unwrap_err();
    assert!(peer.next_request().await.is_none(), "it was sent");
    cause_ref::<CredentialError>(error.as_ref()).unwrap().kind.clone()
}

#[tokio::test]
async fn returns_errors_unrelated_to_subject_token() {
    let pending_request =
        |pending_request| Arc::new(RefreshingTokens(pending_request, AtomicUsize::default()));
    let layer =
        |code| TokenExchangeLayer::new(rejecting(code)).upstream("corp", UpstreamKind::Access);
    let rejected_token = |code: &str| CredentialErrorKind::Rejected { reason: code.into() };
    let away = pending_request(Err(UpstreamError::Unavailable));
    assert_eq!(fault_of(&layer("invalid_grant"), &away).await, rejected_token("invalid_grant"));
    let dead = CredentialErrorKind::NoUpstreamToken { provider: "corp".into() };
    assert_eq!(
        fault_of(&layer("invalid_request"), &pending_request(Err(UpstreamError::NotLinked))).await,
        dead
    );
    let unasked = pending_request(Ok("new"));
    assert_eq!(
        fault_of(&layer("invalid_target"), &unasked).await,
        rejected_token("invalid_target")
    );
    assert_eq!(unasked.1.load(Ordering::SeqCst), 0);
}
