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
    Identity, UpstreamError, UpstreamFuture, UpstreamKind, UpstreamToken, UpstreamTokens, cause_ref,
};

use super::*;
use crate::Credential;

type Peer = Handle<Request<()>, Response<()>>;

/// Upstream tokens with a fixed result; pending if there is none.
struct FakeTokens(Option<Result<&'static str, UpstreamError>>);

impl UpstreamTokens for FakeTokens {
    fn token<'a>(&'a self, provider: &'a str, kind: UpstreamKind) -> UpstreamFuture<'a> {
        assert_eq!((provider, kind), ("github", UpstreamKind::Access));
        Box::pin(async move {
            let Some(result) = self.0 else { return std::future::pending().await };
            result.map(|value| UpstreamToken { value: value.to_owned().into(), expires_at: None })
        })
    }
}

fn user(tokens: FakeTokens) -> Caller {
    Caller::User(Identity::builder("https://idp", "ann").upstream(Arc::new(tokens)).build())
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

/// Sends one request and returns the request that arrived and its response.
async fn send<C: CredentialProvider, A: RetryPolicy<()>>(
    layer: HeaderInjectionLayer<C, A>,
    request: Request<()>,
    status: StatusCode,
) -> (Request<()>, Response<()>) {
    let (inner, mut peer): (_, Peer) = mock::pair();
    let backend = async {
        let (request, responder) = peer.next_request().await.unwrap();
        let mut response = Response::new(());
        *response.status_mut() = status;
        responder.send_response(response);
        request
    };
    let (response, arrived) = tokio::join!(layer.layer(inner).oneshot(request), backend);
    (arrived, response.unwrap())
}

/// Returns the fault of a request that must not be sent.
async fn rejected_fault(
    layer: HeaderInjectionLayer<Credential>,
    caller: Option<Caller>,
) -> CredentialErrorKind {
    let (inner, mut peer): (_, Peer) = mock::pair();
    let error = layer.layer(inner).oneshot(request(caller)).await.unwrap_err();
    assert!(peer.next_request().await.is_none(), "the request was sent");
    let error = cause_ref::<CredentialError>(error.as_ref()).unwrap();
    assert_eq!(error.backend.name(), "files");
    error.kind.clone()
}

#[tokio::test]
async fn fixed_credential_replaces_client_header() {
    for caller in [None, Some(Caller::Gateway), Some(user(FakeTokens(None)))] {
        let (arrived, _) = send(fixed(), request(caller), StatusCode::OK).await;
        let values: Vec<_> = arrived.headers().get_all("x-api-key").iter().collect();
        assert_eq!(values, ["s3cr3t"]);
        assert!(values[0].is_sensitive());
    }
}

#[tokio::test]
async fn removes_client_authorization() {
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
async fn removes_client_header_without_credential() {
    let upstream = upstream().header("X-Api-Key".parse().unwrap());
    let (arrived, _) = send(upstream, request(Some(Caller::Gateway)), StatusCode::OK).await;
    assert!(!arrived.headers().contains_key("x-api-key"));
}

#[tokio::test]
async fn sends_upstream_token_of_caller() {
    let caller = user(FakeTokens(Some(Ok("gho_1"))));
    let (arrived, _) = send(upstream(), request(Some(caller)), StatusCode::OK).await;
    assert_eq!(arrived.headers()[AUTHORIZATION], "Bearer gho_1");
    assert!(arrived.headers()[AUTHORIZATION].is_sensitive());
}

#[tokio::test]
async fn fails_without_caller() {
    let anonymous = Caller::User(Identity::anonymous());
    for caller in [None, Some(anonymous)] {
        assert_eq!(rejected_fault(upstream(), caller).await, CredentialErrorKind::NoCaller);
    }
}

#[tokio::test(start_paused = true)]
async fn fails_without_upstream_token() {
    let absent = CredentialErrorKind::NoUpstreamToken { provider: "github".into() };
    let not_linked = Caller::User(Identity::new("https://idp", "ann"));
    assert_eq!(rejected_fault(upstream(), Some(not_linked)).await, absent);
    let dead = user(FakeTokens(Some(Err(UpstreamError::NotLinked))));
    assert_eq!(rejected_fault(upstream(), Some(dead)).await, absent);
    let broken = [Some(Err(UpstreamError::Unavailable)), Some(Ok("a\r\nX-Admin: 1")), None];
    for result in broken {
        let caller = user(FakeTokens(result));
        let rejected_fault = rejected_fault(upstream(), Some(caller)).await;
        assert!(
            matches!(rejected_fault, CredentialErrorKind::Unavailable { .. }),
            "{result:?}: {rejected_fault}"
        );
    }
}

#[tokio::test]
async fn marks_rejected_token_with_provider() {
    let unauthorized = StatusCode::UNAUTHORIZED;
    let caller = user(FakeTokens(Some(Ok("gho_1"))));
    let (_, response) = send(upstream(), request(Some(caller)), unauthorized).await;
    let refused = response.extensions().get::<TokenRejected>().unwrap();
    assert_eq!(&*refused.provider, "github");
    // A probe's 401 shows that the backend is reachable; a probe carries no token.
    let (_, response) = send(upstream(), request(Some(Caller::Gateway)), unauthorized).await;
    assert!(response.extensions().get::<TokenRejected>().is_none());
    let (_, response) = send(fixed(), request(None), unauthorized).await;
    assert!(response.extensions().get::<TokenRejected>().is_none());
}

#[tokio::test]
async fn keeps_tokens_of_users_apart() {
    for round in 0..20 {
        let (name, token) = if round % 2 == 0 { ("ann", "gho_ann") } else { ("bob", "gho_bob") };
        let tokens = Arc::new(FakeTokens(Some(Ok(token))));
        let caller = Caller::User(Identity::builder("i", name).upstream(tokens).build());
        let (arrived, _) = send(upstream(), request(Some(caller)), StatusCode::OK).await;
        assert_eq!(arrived.headers()[AUTHORIZATION], format!("Bearer {token}"));
    }
}

#[tokio::test]
async fn closure_provides_credential() {
    let callers = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&callers);
    let layer = HeaderInjectionLayer::new(move |caller: Option<&Caller>| {
        seen.lock().unwrap().push(caller.cloned());
        async { Ok(Some(HeaderValue::from_static("sid=1"))) }
    })
    .header(COOKIE.try_into().unwrap());
    let (arrived, _) = send(layer, request(Some(Caller::Gateway)), StatusCode::OK).await;
    assert_eq!(arrived.headers()[COOKIE], "sid=1");
    assert_eq!(*callers.lock().unwrap(), [Some(Caller::Gateway)]);
}

#[test]
fn calls_instance_that_was_ready() {
    let (mut service, mut peer) = mock::spawn_layer::<Request<()>, Response<()>, _>(fixed());
    peer.allow(0);
    assert_pending!(service.poll_ready());
    peer.allow(1);
    assert_ready_ok!(service.poll_ready());
    // The mock panics if an instance is called that was not polled ready.
    let mut response = tokio_test::task::spawn(service.call(request(None)));
    assert_pending!(response.poll());
    assert_pending!(service.poll_ready());
    let (_, responder) = assert_ready!(peer.poll_request()).unwrap();
    responder.send_response(Response::new(()));
    assert!(response.is_woken());
    assert_ready_ok!(response.poll());
}

#[tokio::test(start_paused = true)]
async fn upstream_token_times_out_after_ten_seconds() {
    let began = tokio::time::Instant::now();
    rejected_fault(upstream(), Some(user(FakeTokens(None)))).await;
    assert_eq!(began.elapsed(), Duration::from_secs(10));
}

/// Returns a token that the backend rejects, then the given result; counts the refreshes.
struct RefreshingTokens(Option<Result<&'static str, UpstreamError>>, AtomicUsize);

impl UpstreamTokens for RefreshingTokens {
    fn token<'a>(&'a self, _: &'a str, _: UpstreamKind) -> UpstreamFuture<'a> {
        let token = UpstreamToken { value: "gho_old".into(), expires_at: None };
        Box::pin(std::future::ready(Ok(token)))
    }

    fn refresh<'a>(
        &'a self,
        provider: &'a str,
        kind: UpstreamKind,
        refused: &'a SecretString,
    ) -> UpstreamFuture<'a> {
        assert_eq!((provider, kind), ("github", UpstreamKind::Access));
        assert_eq!(refused.expose_secret(), "gho_old");
        self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let Some(result) = self.0 else { return std::future::pending().await };
            result.map(|value| UpstreamToken { value: value.to_owned().into(), expires_at: None })
        })
    }
}

/// Returns the headers that a backend with these statuses receives, and the last response.
async fn send_with_retry(
    tokens: Arc<RefreshingTokens>,
    statuses: &[StatusCode],
) -> (Vec<String>, Result<Response<()>, BoxError>) {
    let (inner, mut peer): (_, Peer) = mock::pair();
    let caller = Identity::builder("https://idp", "ann").upstream(tokens).build();
    let request = request(Some(Caller::User(caller)));
    let backend = async {
        let mut sent = Vec::new();
        for status in statuses {
            let (request, responder) = peer.next_request().await.unwrap();
            let header = &request.headers()[AUTHORIZATION];
            assert!(header.is_sensitive());
            assert!(!request.headers().contains_key("proxy-authorization"));
            sent.push(header.to_str().unwrap().to_owned());
            let mut response = Response::new(());
            *response.status_mut() = *status;
            responder.send_response(response);
        }
        sent
    };
    let service = upstream().retry_on_unauthorized().layer(inner);
    let (response, sent) = tokio::join!(service.oneshot(request), backend);
    (sent, response)
}

const OLD_HEADER: &str = "Bearer gho_old";
const NEW_HEADER: &str = "Bearer gho_new";

#[tokio::test]
async fn refreshes_rejected_token_and_retries_once() {
    let tokens = Arc::new(RefreshingTokens(Some(Ok("gho_new")), AtomicUsize::default()));
    let statuses = [StatusCode::UNAUTHORIZED, StatusCode::OK];
    let (sent, response) = send_with_retry(Arc::clone(&tokens), &statuses).await;
    assert_eq!(
        (sent, response.unwrap().status()),
        (vec![OLD_HEADER.into(), NEW_HEADER.into()], StatusCode::OK)
    );
    // Tokens are not refreshed for other statuses.
    for status in [StatusCode::OK, StatusCode::FORBIDDEN, StatusCode::BAD_GATEWAY] {
        let (sent, response) = send_with_retry(Arc::clone(&tokens), &[status]).await;
        assert_eq!((sent, response.unwrap().status()), (vec![OLD_HEADER.into()], status));
    }
    assert_eq!(tokens.1.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn returns_second_rejection() {
    let tokens = Arc::new(RefreshingTokens(Some(Ok("gho_new")), AtomicUsize::default()));
    let (sent, response) =
        send_with_retry(Arc::clone(&tokens), &[StatusCode::UNAUTHORIZED; 2]).await;
    let response = response.unwrap();
    assert_eq!((sent.len(), response.status()), (2, StatusCode::UNAUTHORIZED));
    assert_eq!(&*response.extensions().get::<TokenRejected>().unwrap().provider, "github");
    assert_eq!(tokens.1.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn returns_rejection_without_fresh_token() {
    for result in [Some(Err(UpstreamError::Unavailable)), Some(Ok("a\r\nb")), None] {
        let tokens = Arc::new(RefreshingTokens(result, AtomicUsize::default()));
        let (_, response) = send_with_retry(tokens, &[StatusCode::UNAUTHORIZED]).await;
        let response = response.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{result:?}");
        assert!(response.extensions().get::<TokenRejected>().is_some());
    }
}

#[tokio::test]
async fn revoked_grant_requires_login() {
    let tokens =
        Arc::new(RefreshingTokens(Some(Err(UpstreamError::NotLinked)), AtomicUsize::default()));
    let (_, response) = send_with_retry(tokens, &[StatusCode::UNAUTHORIZED]).await;
    let error = response.unwrap_err();
    let error = cause_ref::<CredentialError>(error.as_ref()).unwrap();
    assert_eq!(error.kind, CredentialErrorKind::NoUpstreamToken { provider: "github".into() });
}

#[tokio::test]
async fn returns_rejection_without_retry_or_upstream_token() {
    let tokens = Arc::new(RefreshingTokens(Some(Ok("gho_new")), AtomicUsize::default()));
    let caller = Identity::builder("https://idp", "ann").upstream(tokens.clone()).build();
    let user_request = request(Some(Caller::User(caller)));
    let (_, response) = send(upstream(), user_request, StatusCode::UNAUTHORIZED).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    let probe = request(Some(Caller::Gateway));
    let (_, response) =
        send(upstream().retry_on_unauthorized(), probe, StatusCode::UNAUTHORIZED).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    let (_, response) =
        send(fixed().retry_on_unauthorized(), request(None), StatusCode::UNAUTHORIZED).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(tokens.1.load(Ordering::SeqCst), 0);
}
