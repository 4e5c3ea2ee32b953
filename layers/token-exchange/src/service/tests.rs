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
    UpstreamTokens, cause,
};
use vmcp_log_capture::Log;

use super::*;
use crate::{
    Cached, ExchangeFault, OAuthClient, Once, Outage, Settings, TokenEndpoint, TokenUrl, Twice,
};

type Text = Full<Bytes>;
type Peer = Handle<Request<Text>, Response<()>>;

struct Keeper(Option<Result<&'static str, UpstreamError>>);

impl UpstreamTokens for Keeper {
    fn token<'a>(&'a self, provider: &'a str, kind: UpstreamKind) -> UpstreamFuture<'a> {
        assert_eq!((provider, kind), ("corp", UpstreamKind::Id));
        Box::pin(async move {
            let Some(held) = self.0 else { return std::future::pending().await };
            held.map(|value| UpstreamToken { value: value.to_owned().into(), expires_at: None })
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
fn naming() -> impl Exchange {
    let count = AtomicUsize::new(0);
    move |subject: Subject| {
        let count = count.fetch_add(1, Ordering::Relaxed) + 1;
        let token = format!("new-{}-{count}", subject.expose_token());
        async move { Ok(Exchanged::new(&token.into(), None)?) }
    }
}

fn remembering() -> TokenExchangeLayer<Cached<impl Exchange>> {
    TokenExchangeLayer::new(Cached::new(naming(), Clock::system()))
}

/// Sends one request, has it answered with each of the statuses in turn, and returns what arrived.
async fn send<X: Exchange, A: Resend<Text>>(
    layer: &TokenExchangeLayer<X, A>,
    request: Request<Text>,
    statuses: &[u16],
) -> (Vec<Request<Text>>, Response<()>) {
    let (inner, mut peer): (_, Peer) = mock::pair();
    let backend = async {
        let mut arrived = Vec::new();
        for status in statuses {
            let (request, answer) = peer.next_request().await.unwrap();
            answer.send_response(Response::builder().status(*status).body(()).unwrap());
            arrived.push(request);
        }
        arrived
    };
    let (response, arrived) = tokio::join!(layer.layer(inner).oneshot(request), backend);
    assert!(peer.next_request().await.is_none(), "it was sent once more");
    (arrived, response.unwrap())
}

/// The error of a request that must not be sent.
async fn error<X: Exchange>(
    layer: TokenExchangeLayer<X>,
    caller: Option<Caller>,
) -> CredentialFault {
    let (inner, mut peer): (_, Peer) = mock::pair();
    let error = layer.layer(inner).oneshot(request(caller)).await.unwrap_err();
    assert!(peer.next_request().await.is_none(), "it was sent");
    let error = cause::<CredentialError>(error.as_ref()).unwrap();
    assert_eq!(error.backend.name(), "files");
    error.fault.clone()
}

fn authorization(request: &Request<Text>) -> &str {
    let mut values = request.headers().get_all(AUTHORIZATION).iter();
    let value = values.next().map_or("", |value| value.to_str().unwrap());
    assert!(values.next().is_none());
    value
}

#[tokio::test]
async fn the_exchanged_token_takes_the_place_of_the_callers() {
    let (arrived, _) = send(&remembering(), request(Some(user("ann", "abc"))), &[200]).await;
    assert_eq!(authorization(&arrived[0]), "Bearer new-abc-1");
    assert!(arrived[0].headers()[AUTHORIZATION].is_sensitive());
    assert!(!arrived[0].headers().contains_key(PROXY_AUTHORIZATION));
}

#[tokio::test]
async fn another_header_gets_the_token_and_the_callers_own_still_does_not_pass() {
    let layer = remembering().header(HeaderName::from_static("x-token"));
    let (arrived, _) = send(&layer, request(Some(user("ann", "abc"))), &[200]).await;
    assert_eq!(arrived[0].headers()["x-token"], "Bearer new-abc-1");
    assert_eq!(authorization(&arrived[0]), "");
}

#[tokio::test]
async fn without_a_caller_or_its_token_nothing_is_sent() {
    let nameless = Caller::User(Identity::anonymous());
    let tokenless = Caller::User(Identity::new("https://idp", "ann"));
    for caller in [None, Some(nameless.clone()), Some(tokenless)] {
        assert_eq!(error(remembering(), caller).await, CredentialFault::NoCaller);
    }
    let upstream = remembering().upstream("corp", UpstreamKind::Id);
    for caller in [None, Some(nameless)] {
        assert_eq!(error(upstream.clone(), caller).await, CredentialFault::NoCaller);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_of_an_upstream_provider_is_exchanged_instead() {
    let layer = || remembering().upstream("corp", UpstreamKind::Id);
    let caller = |held| {
        let own = Identity::builder("https://idp", "ann").token("own".to_owned().into());
        Caller::User(own.upstream(Arc::new(Keeper(held))).build())
    };
    let (arrived, _) = send(&layer(), request(Some(caller(Some(Ok("idt"))))), &[200]).await;
    assert_eq!(authorization(&arrived[0]), "Bearer new-idt-1");

    let absent = CredentialFault::NoUpstreamToken { provider: "corp".into() };
    assert_eq!(error(layer(), Some(user("ann", "own"))).await, absent);
    assert_eq!(error(layer(), Some(caller(Some(Err(UpstreamError::Absent))))).await, absent);
    for held in [Some(Err(UpstreamError::Unavailable)), None] {
        let fault = error(layer(), Some(caller(held))).await;
        assert!(matches!(fault, CredentialFault::Unavailable { .. }), "{fault}");
    }
}

#[tokio::test]
async fn an_exchange_that_fails_is_a_credential_error() {
    let refused = ExchangeFault::Refused { code: "invalid_target".into() };
    let down = ExchangeFault::from(Outage::Unreachable(Arc::new(io::Error::other("10.0.0.7"))));
    for (fault, expected) in [
        (refused, CredentialFault::Refused { reason: "invalid_target".into() }),
        (down, CredentialFault::Unavailable { reason: "the token endpoint cannot be reached" }),
    ] {
        let layer = TokenExchangeLayer::new(move |_: Subject| {
            let fault = fault.clone();
            async move { Err(fault) }
        });
        assert_eq!(error(layer, Some(user("ann", "abc"))).await, expected);
    }
}

#[tokio::test]
async fn the_gateway_without_a_token_of_its_own_goes_without() {
    let layer = remembering().header(HeaderName::from_static("x-token"));
    for layer in [layer.clone(), layer.upstream("corp", UpstreamKind::Id)] {
        let (arrived, answer) = send(&layer, request(Some(Caller::Gateway)), &[401]).await;
        assert_eq!(authorization(&arrived[0]), "");
        assert!(!arrived[0].headers().contains_key("x-token"));
        assert_eq!(answer.status(), 401);
    }
}

#[tokio::test]
async fn the_gateway_with_a_secret_has_a_token_of_its_own() {
    let count = Arc::new(AtomicUsize::new(0));
    let client = service_fn(move |_: Request<Body>| {
        let token = count.fetch_add(1, Ordering::Relaxed) + 1;
        let body = format!(r#"{{"access_token":"own-{token}","token_type":"Bearer"}}"#);
        let answer = Response::builder().header("content-type", "application/json");
        async move { answer.body(Text::from(body)) }
    });
    let settings = Settings::new(TokenUrl::new("https://idp.example/").unwrap())
        .client(OAuthClient::basic("gate", &"secret".to_owned().into()).unwrap());
    let endpoint = TokenEndpoint::new(client, settings, Clock::system());
    let layer = TokenExchangeLayer::new(Cached::new(endpoint, Clock::system())).resending();
    for (statuses, tokens) in [(&[200][..], &["own-1"][..]), (&[401, 200], &["own-1", "own-2"])] {
        let (arrived, _) = send(&layer, request(Some(Caller::Gateway)), statuses).await;
        for (request, token) in arrived.iter().zip(tokens) {
            assert_eq!(authorization(request), format!("Bearer {token}"));
        }
    }
}

#[tokio::test]
async fn a_refused_token_is_exchanged_anew_and_the_request_sent_again() {
    let layer = remembering().resending();
    let ann = || request(Some(user("ann", "abc")));
    let (arrived, answer) = send(&layer, ann(), &[401, 200]).await;
    assert_eq!(answer.status(), 200);
    let tokens: Vec<_> = arrived.iter().map(authorization).collect();
    assert_eq!(tokens, ["Bearer new-abc-1", "Bearer new-abc-2"]);
    for request in &arrived {
        assert_eq!(request.extensions().get::<Backend>().unwrap().name(), "files");
    }
    // A backend that takes no token at all is asked once per request from now on.
    let (arrived, answer) = send(&layer, ann(), &[401]).await;
    assert_eq!(
        (authorization(&arrived[0]), answer.status()),
        ("Bearer new-abc-2", StatusCode::UNAUTHORIZED)
    );
}

#[tokio::test]
async fn a_second_refusal_passes() {
    let layer = remembering().resending();
    let (_, answer) = send(&layer, request(Some(user("ann", "abc"))), &[401, 401]).await;
    assert_eq!(answer.status(), 401);
}

#[tokio::test]
async fn a_request_that_is_sent_once_leaves_the_fresh_token_to_the_next() {
    let layer = remembering();
    let ann = || request(Some(user("ann", "abc")));
    send(&layer, ann(), &[401]).await;
    let (arrived, _) = send(&layer, ann(), &[200]).await;
    assert_eq!(authorization(&arrived[0]), "Bearer new-abc-2");
}

#[tokio::test]
async fn what_is_not_remembered_is_not_tried_again() {
    let layer = TokenExchangeLayer::new(naming()).resending();
    send(&layer, request(Some(user("ann", "abc"))), &[401]).await;
}

#[tokio::test]
async fn interleaved_users_never_get_each_others_token() {
    let layer = remembering();
    for round in 0..20 {
        let (name, token) = if round % 2 == 0 { ("ann", "a") } else { ("bob", "b") };
        let (arrived, _) = send(&layer, request(Some(user(name, token))), &[200]).await;
        assert!(authorization(&arrived[0]).starts_with(&format!("Bearer new-{token}-")));
    }
}

#[test]
fn the_instance_that_was_ready_is_the_one_that_is_called() {
    let (mut service, mut peer) =
        mock::spawn_layer::<Request<Text>, Response<()>, _>(remembering().resending());
    peer.allow(0);
    assert_pending!(service.poll_ready());
    peer.allow(1);
    assert_ready_ok!(service.poll_ready());
    // Panics in the mock if a clone, which nobody polled, were called.
    let mut response = tokio_test::task::spawn(service.call(request(Some(user("ann", "abc")))));
    assert_pending!(response.poll());
    let (_, answer) = assert_ready!(peer.poll_request()).unwrap();
    answer.send_response(Response::builder().status(401).body(()).unwrap());
    // The second try waits until the instance is ready again.
    assert_pending!(response.poll());
    assert_pending!(peer.poll_request());
    peer.allow(1);
    assert!(response.is_woken());
    assert_pending!(response.poll());
    let (again, answer) = assert_ready!(peer.poll_request()).unwrap();
    assert_eq!(authorization(&again), "Bearer new-abc-2");
    answer.send_response(Response::new(()));
    assert_ready_ok!(response.poll());
}

#[test]
fn any_body_will_do_where_nothing_is_sent_twice() {
    struct Stream;
    let request = Request::new(Stream);
    assert!(Once.copy(&request).is_none());
    assert!(Twice.copy(&Request::new(())).is_some());
}

/// The whole layer over an authorization server that repeats what it was sent.
#[tokio::test(start_paused = true)]
async fn no_secret_is_in_an_error_a_log_or_a_debug_form() {
    let log = Log::of_this_thread();
    let clock = Clock::manual(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
    let asked = Arc::new(AtomicUsize::new(0));
    let client = service_fn(move |_: Request<Body>| {
        let (status, body) = match asked.fetch_add(1, Ordering::Relaxed) {
            0 => (200, r#"{"access_token":"canary-new","token_type":"Bearer","expires_in":3600}"#),
            1 => (400, r#"{"error":"canary-abc","error_description":"canary-secret"}"#),
            _ => (200, r#"{"access_token":["canary-abc"]}"#),
        };
        let answer = Response::builder().status(status).header("content-type", "application/json");
        async move { answer.body(Text::from(body)) }
    });
    let settings = Settings::new(TokenUrl::new("https://idp.example/").unwrap())
        .client(OAuthClient::post("gate", &"canary-secret".to_owned().into()).unwrap());
    let exchange = Cached::new(TokenEndpoint::new(client, settings, clock.clone()), clock.clone());
    let mut shown = vec![format!("{exchange:?}")];
    let layer = TokenExchangeLayer::new(exchange);
    let ann = || request(Some(user("ann", "canary-abc")));
    let (arrived, _) = send(&layer, ann(), &[200]).await;
    shown.push(format!("{layer:?} {:?} {:?}", arrived[0].headers(), arrived[0].extensions()));
    // The refresh ahead fails, and says so.
    clock.advance(Duration::from_secs(3000));
    send(&layer, ann(), &[200]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..2 {
        clock.advance(Duration::from_secs(3600));
        let (inner, _peer): (_, Peer) = mock::pair();
        let failed = layer.layer(inner).oneshot(ann()).await.unwrap_err();
        let mut error: Option<&dyn std::error::Error> = Some(failed.as_ref());
        while let Some(one) = error {
            shown.push(format!("{one} {one:?}"));
            error = one.source();
        }
    }
    let logged = log.text();
    assert!(logged.contains("could not be refreshed"), "{logged}");
    for text in shown.iter().chain([&logged]) {
        assert!(!text.contains("canary"), "{text}");
    }
}

/// Has `old`, and what it holds when that is not taken.
struct Renewing(Result<&'static str, UpstreamError>, AtomicUsize);

impl UpstreamTokens for Renewing {
    fn token<'a>(&'a self, _: &'a str, _: UpstreamKind) -> UpstreamFuture<'a> {
        let token = UpstreamToken { value: "old".into(), expires_at: None };
        Box::pin(std::future::ready(Ok(token)))
    }

    fn renewed<'a>(
        &'a self,
        provider: &'a str,
        kind: UpstreamKind,
        refused: &'a SecretString,
    ) -> UpstreamFuture<'a> {
        assert_eq!(
            (provider, kind, refused.expose_secret()),
            ("corp", UpstreamKind::Access, "old")
        );
        self.1.fetch_add(1, Ordering::SeqCst);
        let held = self.0.map(|value| UpstreamToken { value: value.into(), expires_at: None });
        Box::pin(std::future::ready(held))
    }
}

/// Refuses `old` with this code, and `older` never comes.
fn refusing(code: &'static str) -> impl Exchange {
    move |subject: Subject| async move {
        if subject.expose_token() == "old" {
            return Err(ExchangeFault::Refused { code: code.into() });
        }
        Ok(Exchanged::new(&format!("for-{}", subject.expose_token()).as_str().into(), None)?)
    }
}

fn linked(keeper: &Arc<Renewing>) -> Request<Text> {
    let keeper = Arc::clone(keeper) as Arc<dyn UpstreamTokens>;
    let identity = Identity::builder("https://idp", "ann").token("abc".into()).upstream(keeper);
    request(Some(Caller::User(identity.build())))
}

#[tokio::test]
async fn an_upstream_token_that_the_exchange_does_not_take_is_renewed_once() {
    let keeper = Arc::new(Renewing(Ok("new"), AtomicUsize::default()));
    let layer = TokenExchangeLayer::new(refusing("invalid_grant")).resending();
    let layer = layer.upstream("corp", UpstreamKind::Access);
    let (arrived, _) = send(&layer, linked(&keeper), &[200]).await;
    assert_eq!(authorization(&arrived[0]), "Bearer for-new");
    assert_eq!(keeper.1.load(Ordering::SeqCst), 1);
    // Nor is it for ever: the renewed one is refused too.
    let keeper = Arc::new(Renewing(Ok("old"), AtomicUsize::default()));
    assert!(matches!(lost(&layer, &keeper).await, CredentialFault::Refused { .. }));
    assert_eq!(keeper.1.load(Ordering::SeqCst), 1);
}

/// The fault of a request that is not sent.
async fn lost<X: Exchange, A: Resend<Text>>(
    layer: &TokenExchangeLayer<X, A>,
    keeper: &Arc<Renewing>,
) -> CredentialFault {
    let (inner, mut peer): (_, Peer) = mock::pair();
    let error = layer.layer(inner).oneshot(linked(keeper)).await.unwrap_err();
    assert!(peer.next_request().await.is_none(), "it was sent");
    cause::<CredentialError>(error.as_ref()).unwrap().fault.clone()
}

#[tokio::test]
async fn what_no_other_token_mends_is_answered_as_it_is() {
    let held = |held| Arc::new(Renewing(held, AtomicUsize::default()));
    let layer =
        |code| TokenExchangeLayer::new(refusing(code)).upstream("corp", UpstreamKind::Access);
    let refused = |code: &str| CredentialFault::Refused { reason: code.into() };
    let away = held(Err(UpstreamError::Unavailable));
    assert_eq!(lost(&layer("invalid_grant"), &away).await, refused("invalid_grant"));
    let dead = CredentialFault::NoUpstreamToken { provider: "corp".into() };
    assert_eq!(lost(&layer("invalid_request"), &held(Err(UpstreamError::Absent))).await, dead);
    let unasked = held(Ok("new"));
    assert_eq!(lost(&layer("invalid_target"), &unasked).await, refused("invalid_target"));
    assert_eq!(unasked.1.load(Ordering::SeqCst), 0);
}
