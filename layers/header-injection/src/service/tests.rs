use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderValue;
use http::header::COOKIE;
use secrecy::{ExposeSecret, SecretString};
use tokio_test::{assert_pending, assert_ready, assert_ready_ok};
use tower::{Layer, ServiceExt};
use tower_test::mock::{self, Handle};
use vmcp_core::{
    Identity, UpstreamError, UpstreamFuture, UpstreamKind, UpstreamToken, UpstreamTokens, cause,
};

use super::*;
use crate::Credential;

type Peer = Handle<Request<()>, Response<()>>;

/// Gives out what it holds; silent when it holds nothing.
struct Keeper(Option<Result<&'static str, UpstreamError>>);

impl UpstreamTokens for Keeper {
    fn token<'a>(&'a self, provider: &'a str, kind: UpstreamKind) -> UpstreamFuture<'a> {
        assert_eq!((provider, kind), ("github", UpstreamKind::Access));
        Box::pin(async move {
            let Some(held) = self.0 else { return std::future::pending().await };
            held.map(|value| UpstreamToken { value: value.to_owned().into(), expires_at: None })
        })
    }
}

fn user(keeper: Keeper) -> Caller {
    Caller::User(Identity::builder("https://idp", "ann").upstream(Arc::new(keeper)).build())
}

fn request(caller: Option<Caller>) -> Request<()> {
    let mut request = Request::new(());
    request.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static("Bearer inbound"));
    request.headers_mut().insert(PROXY_AUTHORIZATION, HeaderValue::from_static("Basic inbound"));
    request.headers_mut().insert("x-api-key", HeaderValue::from_static("of the client"));
    request.extensions_mut().insert(Backend::new("files"));
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    request
}

fn fixed() -> HeaderInjectionLayer<Credential> {
    let credential = Credential::fixed(&SecretString::from("s3cr3t".to_owned())).unwrap();
    HeaderInjectionLayer::new(credential).header("X-Api-Key".parse().unwrap())
}

fn upstream() -> HeaderInjectionLayer<Credential> {
    HeaderInjectionLayer::new(Credential::upstream("github"))
}

/// Sends one request, has it answered, and returns what arrived and the answer.
async fn send<C: Credentials, A: Resend<()>>(
    layer: HeaderInjectionLayer<C, A>,
    request: Request<()>,
    status: StatusCode,
) -> (Request<()>, Response<()>) {
    let (inner, mut peer): (_, Peer) = mock::pair();
    let backend = async {
        let (request, answer) = peer.next_request().await.unwrap();
        let mut response = Response::new(());
        *response.status_mut() = status;
        answer.send_response(response);
        request
    };
    let (response, arrived) = tokio::join!(layer.layer(inner).oneshot(request), backend);
    (arrived, response.unwrap())
}

/// The fault of a request that must not be sent.
async fn fault(layer: HeaderInjectionLayer<Credential>, caller: Option<Caller>) -> CredentialFault {
    let (inner, mut peer): (_, Peer) = mock::pair();
    let error = layer.layer(inner).oneshot(request(caller)).await.unwrap_err();
    assert!(peer.next_request().await.is_none(), "it was sent");
    let error = cause::<CredentialError>(error.as_ref()).unwrap();
    assert_eq!(error.backend.name(), "files");
    error.fault.clone()
}

#[tokio::test]
async fn a_fixed_credential_replaces_what_the_client_sent() {
    for caller in [None, Some(Caller::Gateway), Some(user(Keeper(None)))] {
        let (arrived, _) = send(fixed(), request(caller), StatusCode::OK).await;
        let values: Vec<_> = arrived.headers().get_all("x-api-key").iter().collect();
        assert_eq!(values, ["s3cr3t"]);
        assert!(values[0].is_sensitive());
    }
}

#[tokio::test]
async fn the_callers_own_authorization_never_passes() {
    let (with, _) = send(fixed(), request(None), StatusCode::OK).await;
    let (skipped, _) = send(upstream(), request(Some(Caller::Gateway)), StatusCode::OK).await;
    let nothing = HeaderInjectionLayer::new(|_: Option<&Caller>| async { Ok(None) });
    let (without, _) = send(nothing, request(None), StatusCode::OK).await;
    for arrived in [with, skipped, without] {
        assert!(!arrived.headers().contains_key(AUTHORIZATION));
        assert!(!arrived.headers().contains_key(PROXY_AUTHORIZATION));
    }
}

#[tokio::test]
async fn what_the_client_put_where_no_credential_goes_does_not_pass_either() {
    let upstream = upstream().header("X-Api-Key".parse().unwrap());
    let (arrived, _) = send(upstream, request(Some(Caller::Gateway)), StatusCode::OK).await;
    assert!(!arrived.headers().contains_key("x-api-key"));
}

#[tokio::test]
async fn an_upstream_token_is_the_callers() {
    let caller = user(Keeper(Some(Ok("gho_1"))));
    let (arrived, _) = send(upstream(), request(Some(caller)), StatusCode::OK).await;
    assert_eq!(arrived.headers()[AUTHORIZATION], "Bearer gho_1");
    assert!(arrived.headers()[AUTHORIZATION].is_sensitive());
}

#[tokio::test]
async fn without_a_caller_nothing_is_sent() {
    let anonymous = Caller::User(Identity::anonymous());
    for caller in [None, Some(anonymous)] {
        assert_eq!(fault(upstream(), caller).await, CredentialFault::NoCaller);
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_callers_token_nothing_is_sent() {
    let absent = CredentialFault::NoUpstreamToken { provider: "github".into() };
    let not_linked = Caller::User(Identity::new("https://idp", "ann"));
    assert_eq!(fault(upstream(), Some(not_linked)).await, absent);
    let dead = user(Keeper(Some(Err(UpstreamError::Absent))));
    assert_eq!(fault(upstream(), Some(dead)).await, absent);
    let broken = [Some(Err(UpstreamError::Unavailable)), Some(Ok("a\r\nX-Admin: 1")), None];
    for held in broken {
        let caller = user(Keeper(held));
        let fault = fault(upstream(), Some(caller)).await;
        assert!(matches!(fault, CredentialFault::Unavailable { .. }), "{held:?}: {fault}");
    }
}

#[tokio::test]
async fn a_refused_upstream_token_is_marked_with_its_provider() {
    let unauthorized = StatusCode::UNAUTHORIZED;
    let caller = user(Keeper(Some(Ok("gho_1"))));
    let (_, answer) = send(upstream(), request(Some(caller)), unauthorized).await;
    let refused = answer.extensions().get::<TokenRefused>().unwrap();
    assert_eq!(&*refused.provider, "github");
    // A probe's 401 says that the backend is reachable, and nothing of a token.
    let (_, answer) = send(upstream(), request(Some(Caller::Gateway)), unauthorized).await;
    assert!(answer.extensions().get::<TokenRefused>().is_none());
    let (_, answer) = send(fixed(), request(None), unauthorized).await;
    assert!(answer.extensions().get::<TokenRefused>().is_none());
}

#[tokio::test]
async fn two_users_never_see_each_others_token() {
    for round in 0..20 {
        let (name, token) = if round % 2 == 0 { ("ann", "gho_ann") } else { ("bob", "gho_bob") };
        let keeper = Arc::new(Keeper(Some(Ok(token))));
        let caller = Caller::User(Identity::builder("i", name).upstream(keeper).build());
        let (arrived, _) = send(upstream(), request(Some(caller)), StatusCode::OK).await;
        assert_eq!(arrived.headers()[AUTHORIZATION], format!("Bearer {token}"));
    }
}

#[tokio::test]
async fn a_closure_is_a_credential() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let layer = HeaderInjectionLayer::new(move |caller: Option<&Caller>| {
        seen.lock().unwrap().push(caller.cloned());
        async { Ok(Some(HeaderValue::from_static("sid=1"))) }
    })
    .header(COOKIE.try_into().unwrap());
    let (arrived, _) = send(layer, request(Some(Caller::Gateway)), StatusCode::OK).await;
    assert_eq!(arrived.headers()[COOKIE], "sid=1");
    assert_eq!(*asked.lock().unwrap(), [Some(Caller::Gateway)]);
}

#[test]
fn the_instance_that_was_ready_is_the_one_that_is_called() {
    let (mut service, mut peer) = mock::spawn_layer::<Request<()>, Response<()>, _>(fixed());
    peer.allow(0);
    assert_pending!(service.poll_ready());
    peer.allow(1);
    assert_ready_ok!(service.poll_ready());
    // Panics in the mock if a clone, which nobody polled, were called.
    let mut response = tokio_test::task::spawn(service.call(request(None)));
    assert_pending!(response.poll());
    assert_pending!(service.poll_ready());
    let (_, answer) = assert_ready!(peer.poll_request()).unwrap();
    answer.send_response(Response::new(()));
    assert!(response.is_woken());
    assert_ready_ok!(response.poll());
}

#[tokio::test(start_paused = true)]
async fn a_silent_keeper_of_tokens_costs_ten_seconds() {
    let began = tokio::time::Instant::now();
    fault(upstream(), Some(user(Keeper(None)))).await;
    assert_eq!(began.elapsed(), Duration::from_secs(10));
}

/// Gives out a token that is refused, and then what it holds; counts how often it is asked for that.
struct Renewing(Option<Result<&'static str, UpstreamError>>, AtomicUsize);

impl UpstreamTokens for Renewing {
    fn token<'a>(&'a self, _: &'a str, _: UpstreamKind) -> UpstreamFuture<'a> {
        let token = UpstreamToken { value: "gho_old".into(), expires_at: None };
        Box::pin(std::future::ready(Ok(token)))
    }

    fn renewed<'a>(
        &'a self,
        provider: &'a str,
        kind: UpstreamKind,
        refused: &'a SecretString,
    ) -> UpstreamFuture<'a> {
        assert_eq!((provider, kind), ("github", UpstreamKind::Access));
        assert_eq!(refused.expose_secret(), "gho_old");
        self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let Some(held) = self.0 else { return std::future::pending().await };
            held.map(|value| UpstreamToken { value: value.to_owned().into(), expires_at: None })
        })
    }
}

/// What a backend that answers with these statuses is sent, and what comes of it.
async fn resend(
    keeper: Arc<Renewing>,
    statuses: &[StatusCode],
) -> (Vec<String>, Result<Response<()>, BoxError>) {
    let (inner, mut peer): (_, Peer) = mock::pair();
    let caller = Identity::builder("https://idp", "ann").upstream(keeper).build();
    let asked = request(Some(Caller::User(caller)));
    let backend = async {
        let mut shown = Vec::new();
        for status in statuses {
            let (request, answer) = peer.next_request().await.unwrap();
            let header = &request.headers()[AUTHORIZATION];
            assert!(header.is_sensitive());
            assert!(!request.headers().contains_key("proxy-authorization"));
            shown.push(header.to_str().unwrap().to_owned());
            let mut response = Response::new(());
            *response.status_mut() = *status;
            answer.send_response(response);
        }
        shown
    };
    let service = upstream().resending().layer(inner);
    let (response, shown) = tokio::join!(service.oneshot(asked), backend);
    (shown, response)
}

const OLD: &str = "Bearer gho_old";
const NEW: &str = "Bearer gho_new";

#[tokio::test]
async fn a_refused_token_is_renewed_and_the_request_sent_once_more() {
    let keeper = Arc::new(Renewing(Some(Ok("gho_new")), AtomicUsize::default()));
    let statuses = [StatusCode::UNAUTHORIZED, StatusCode::OK];
    let (shown, answer) = resend(Arc::clone(&keeper), &statuses).await;
    assert_eq!((shown, answer.unwrap().status()), (vec![OLD.into(), NEW.into()], StatusCode::OK));
    // What is taken, or refused for another reason, is not renewed.
    for status in [StatusCode::OK, StatusCode::FORBIDDEN, StatusCode::BAD_GATEWAY] {
        let (shown, answer) = resend(Arc::clone(&keeper), &[status]).await;
        assert_eq!((shown, answer.unwrap().status()), (vec![OLD.into()], status));
    }
    assert_eq!(keeper.1.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_second_refusal_is_the_answer() {
    let keeper = Arc::new(Renewing(Some(Ok("gho_new")), AtomicUsize::default()));
    let (shown, answer) = resend(Arc::clone(&keeper), &[StatusCode::UNAUTHORIZED; 2]).await;
    let answer = answer.unwrap();
    assert_eq!((shown.len(), answer.status()), (2, StatusCode::UNAUTHORIZED));
    assert_eq!(&*answer.extensions().get::<TokenRefused>().unwrap().provider, "github");
    assert_eq!(keeper.1.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn where_no_other_token_can_be_had_the_refusal_is_the_answer() {
    for held in [Some(Err(UpstreamError::Unavailable)), Some(Ok("a\r\nb")), None] {
        let keeper = Arc::new(Renewing(held, AtomicUsize::default()));
        let (_, answer) = resend(keeper, &[StatusCode::UNAUTHORIZED]).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{held:?}");
        assert!(answer.extensions().get::<TokenRefused>().is_some());
    }
}

#[tokio::test]
async fn a_grant_that_turns_out_dead_asks_for_a_login() {
    let keeper = Arc::new(Renewing(Some(Err(UpstreamError::Absent)), AtomicUsize::default()));
    let (_, answer) = resend(keeper, &[StatusCode::UNAUTHORIZED]).await;
    let error = answer.unwrap_err();
    let error = cause::<CredentialError>(error.as_ref()).unwrap();
    assert_eq!(error.fault, CredentialFault::NoUpstreamToken { provider: "github".into() });
}

#[tokio::test]
async fn without_resending_and_for_what_is_nobodys_token_a_refusal_is_the_answer() {
    let keeper = Arc::new(Renewing(Some(Ok("gho_new")), AtomicUsize::default()));
    let caller = Identity::builder("https://idp", "ann").upstream(keeper.clone()).build();
    let asked = request(Some(Caller::User(caller)));
    let (_, answer) = send(upstream(), asked, StatusCode::UNAUTHORIZED).await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    let asked = request(Some(Caller::Gateway));
    let (_, answer) = send(upstream().resending(), asked, StatusCode::UNAUTHORIZED).await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    let (_, answer) = send(fixed().resending(), request(None), StatusCode::UNAUTHORIZED).await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(keeper.1.load(Ordering::SeqCst), 0);
}
