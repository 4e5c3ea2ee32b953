//! The reasons for the positions in `src/stack.rs`, each shown by what would be different elsewhere.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tower::ServiceExt;
use url::Url;
use vmcp_aggregate::Gateway;
use vmcp_aggregate::settings::{BackendService, Limits, PartialFailure, Rules, Settings};
use vmcp_audit::{AuditLayer, Auditor, Event, Outcome};
use vmcp_authn::{AuthError, AuthenticationLayer, Authenticator};
use vmcp_authz::AuthorizationLayer;
use vmcp_breaker::{CircuitHandle, CircuitOpen, CircuitState};
use vmcp_cedar::Cedar;
use vmcp_core::{
    Backend, Body, BoxError, Caller, Clock, CredentialError, Identity, UpstreamFuture,
    UpstreamKind, UpstreamToken, UpstreamTokens, cause_ref,
};
use vmcp_decode::DecodeLayer;
use vmcp_egress::{ClientSettings, Egress};
use vmcp_header_injection::{Credential, HeaderInjectionLayer};
use vmcp_http_guard::{AllowedHostsLayer, ConcurrencyLimitLayer};
use vmcp_seal::KeyRing;
use vmcp_server::request_log::RequestLogLayer;
use vmcp_server::stack::{Credentials, IncomingLayers, McpService, OutgoingLayers};
use vmcp_telemetry::ClientTelemetryLayer;
use vmcp_telemetry_export::Telemetry;
use vmcp_timeout::{Elapsed, TimeoutLayer};

/// Body that fails the test when a layer reads it.
struct UnreadableBody;

impl http_body::Body for UnreadableBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        panic!("the body was read");
    }
}

/// Body of a test's request.
trait TestBody: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static {}

impl<B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static> TestBody for B {}

fn stack<B: TestBody>(requests: usize) -> McpService<B> {
    guarded(requests, None, None)
}

fn guarded<B: TestBody>(
    requests: usize,
    authenticate: Option<Arc<dyn Authenticator>>,
    authorize: Option<AuthorizationLayer<Cedar>>,
) -> McpService<B> {
    audited(requests, None, authenticate, authorize)
}

fn audited<B: TestBody>(
    requests: usize,
    audit: Option<AuditLayer>,
    authenticate: Option<Arc<dyn Authenticator>>,
    authorize: Option<AuthorizationLayer<Cedar>>,
) -> McpService<B> {
    let settings = Settings {
        name: "test".to_owned(),
        version: "1".to_owned(),
        backends: Vec::new(),
        rules: Rules::default(),
        partial_failure: PartialFailure::BestEffort,
        checks: None,
        optimizer: None,
    };
    let ring = KeyRing::ephemeral(Clock::system()).unwrap();
    let incoming = IncomingLayers {
        telemetry: None,
        log: RequestLogLayer::default(),
        concurrency_limit: ConcurrencyLimitLayer::new(requests),
        allowed_hosts: AllowedHostsLayer::loopback(Vec::new(), Vec::new()),
        audit,
        authenticate: authenticate.map(AuthenticationLayer::new),
        authorize,
        decode: DecodeLayer::new(),
    };
    incoming.stack(Gateway::new(settings, Limits::default(), ring))
}

fn request<B>(host: &str, body: B) -> Request<B> {
    Request::post("/mcp")
        .header("host", host)
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

async fn status<B: TestBody>(service: McpService<B>, request: Request<B>) -> u16 {
    let response: Response<Body> = service.oneshot(request).await.unwrap();
    response.status().as_u16()
}

#[tokio::test]
async fn turns_inner_panic_into_failed_request() {
    // The innermost layer is the one that reads the body.
    assert_eq!(status(stack(1), request("localhost", UnreadableBody)).await, 500);
}

#[tokio::test]
async fn rejects_excess_requests_before_other_checks() {
    assert_eq!(status(stack(0), request("evil.example.com", UnreadableBody)).await, 503);
}

#[tokio::test]
async fn rejects_foreign_origin_before_parsing() {
    assert_eq!(status(stack(1), request("evil.example.com", UnreadableBody)).await, 403);
}

#[tokio::test]
async fn answers_preflight_without_reading_body() {
    let preflight = Request::builder()
        .method(Method::OPTIONS)
        .uri("/mcp")
        .header("host", "localhost:4483")
        .header("origin", "http://localhost:6274")
        .header("access-control-request-method", "POST")
        .body(UnreadableBody)
        .unwrap();
    assert_eq!(status(stack(1), preflight).await, 204);
}

/// Returns an authenticator that rejects all callers.
fn reject_all() -> Arc<dyn Authenticator> {
    Arc::new(|_: &HeaderMap| async { Err::<Identity, _>(AuthError::NoCredentials) })
}

#[tokio::test]
async fn authenticates_before_reading_body() {
    let request = request("localhost", UnreadableBody);
    assert_eq!(status(guarded(1, Some(reject_all()), None), request).await, 401);
}

#[tokio::test]
async fn audits_rejected_callers() {
    let (sender, events) = std::sync::mpsc::channel();
    let record = move |event: Event| sender.send(event.outcome).unwrap();
    let auditor = Auditor::new(vmcp_audit::AuditSettings::default(), record);
    let stack = audited(1, Some(AuditLayer::new(auditor)), Some(reject_all()), None);
    assert_eq!(status(stack.clone(), request("localhost", UnreadableBody)).await, 401);
    assert_eq!(events.try_recv(), Ok(Outcome::Denied));
    // A foreign page is not a caller.
    assert_eq!(status(stack, request("evil.test", UnreadableBody)).await, 403);
    assert!(events.try_recv().is_err());
}

#[tokio::test]
async fn rejects_foreign_host_before_authentication() {
    let request = request("evil.test", UnreadableBody);
    assert_eq!(status(guarded(1, Some(reject_all()), None), request).await, 403);
}

#[tokio::test]
async fn answers_preflight_without_token() {
    let preflight = Request::options("/mcp")
        .header("host", "localhost")
        .header("origin", "http://localhost")
        .header("access-control-request-method", "POST")
        .body(UnreadableBody)
        .unwrap();
    assert_eq!(status(guarded(1, Some(reject_all()), None), preflight).await, 204);
}

#[tokio::test]
async fn policies_evaluate_decoded_message() {
    let policy = r#"permit(principal == Client::"ada", action, resource) when { true };"#;
    let cedar = Cedar::new("test", &[policy], "[]").unwrap();
    // One that judges by itself, since there is nothing to list.
    let authorize = AuthorizationLayer::new(cedar);
    let ada = |_: &HeaderMap| async { Ok::<_, AuthError>(Identity::new("i", "ada")) };
    let stack = guarded(1, Some(Arc::new(ada)), Some(authorize));
    let ask = |method: &str| {
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"protocolVersion":"2025-11-25"}}}}"#
        );
        request("localhost", Full::from(message))
    };
    assert_eq!(status(stack.clone(), ask("initialize")).await, 200);
    assert_eq!(status(stack.clone(), ask("secrets/dump")).await, 403);
    assert_eq!(status(stack, request("localhost", Full::from("{"))).await, 400);
}

#[tokio::test]
async fn service_receives_decoded_message() {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    assert_eq!(status(stack(1), request("localhost", Full::from(ping))).await, 200);
    assert_eq!(status(stack(1), request("localhost", Full::from("{"))).await, 400);
}

/// Serves each connection with the next of `answers`; behind the last, none is answered. Gives the heads
/// that came.
async fn serve(answers: &'static [&'static str]) -> (Url, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/here", listener.local_addr().unwrap()).parse().unwrap();
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&heads);
    tokio::spawn(async move {
        let mut kept = Vec::new();
        let mut answers = answers.iter();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let read = stream.read(&mut head).await.unwrap_or(0);
            seen.lock().unwrap().push(String::from_utf8_lossy(&head[..read]).into_owned());
            match answers.next() {
                Some(answer) => {
                    let close = "content-length: 0\r\nconnection: close\r\n\r\n";
                    stream
                        .write_all(format!("HTTP/1.1 {answer}\r\n{close}").as_bytes())
                        .await
                        .unwrap();
                }
                None => kept.push(stream),
            }
        }
    });
    (url, heads)
}

const LIMIT: Duration = Duration::from_millis(300);

fn outgoing(url: &Url, credentials: Credentials) -> (BackendService, CircuitHandle) {
    measured(url, credentials, None)
}

fn measured(
    url: &Url,
    credentials: Credentials,
    telemetry: Option<ClientTelemetryLayer>,
) -> (BackendService, CircuitHandle) {
    let client =
        Egress::default().client(url, ClientSettings::allowing_private_addresses()).unwrap();
    let settings = vmcp_breaker::CircuitSettings::new(1, Duration::from_mins(1)).unwrap();
    let breaker = CircuitHandle::new(Backend::new("be"), settings);
    let timeouts = TimeoutLayer::new(LIMIT);
    let breaker_of = Some(breaker.clone());
    let outgoing = OutgoingLayers {
        telemetry,
        breaker: breaker_of,
        credentials,
        headers: None,
        timeouts,
        client,
    };
    (outgoing.stack(), breaker)
}

async fn send(service: &BackendService, url: &Url, caller: Caller) -> Result<u16, BoxError> {
    let mut request = Request::post(url.as_str()).body(Full::from("x")).unwrap();
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(Backend::new("be"));
    service.send(request).await.map(|response| response.status().as_u16())
}

/// Counts how often it is asked, and answers after a while.
#[derive(Default)]
struct Tokens {
    asked: AtomicUsize,
    slow: bool,
}

impl UpstreamTokens for Tokens {
    fn token<'a>(&'a self, _: &'a str, _: UpstreamKind) -> UpstreamFuture<'a> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if self.slow {
                tokio::time::sleep(LIMIT * 2).await;
            }
            Ok(UpstreamToken { value: "secret".into(), expires_at: None })
        })
    }
}

fn caller(tokens: &Arc<Tokens>) -> Caller {
    let tokens: Arc<dyn UpstreamTokens> = Arc::clone(tokens) as _;
    Caller::User(Identity::builder("i", "s").upstream(tokens).build())
}

fn upstream() -> Credentials {
    Credentials::Header(
        HeaderInjectionLayer::new(Credential::upstream("github")).retry_on_unauthorized(),
    )
}

#[tokio::test]
async fn adds_credentials_again_after_redirect() {
    let (url, heads) = serve(&["307 T\r\nlocation: /there", "200 OK"]).await;
    let tokens = Arc::new(Tokens::default());
    let (service, _) = outgoing(&url, upstream());
    assert_eq!(send(&service, &url, caller(&tokens)).await.unwrap(), 200);
    assert_eq!(tokens.asked.load(Ordering::Relaxed), 2);
    let heads = heads.lock().unwrap();
    assert!(heads.iter().all(|head| head.contains("authorization: Bearer secret")), "{heads:?}");
}

#[tokio::test]
async fn redirects_count_toward_backend_timeout() {
    let (url, _) = serve(&["307 T\r\nlocation: /there"]).await;
    let (service, _) = outgoing(&url, Credentials::None);
    let error = send(&service, &url, Caller::Gateway).await.unwrap_err();
    assert_eq!(cause_ref::<Elapsed>(error.as_ref()), Some(&Elapsed { limit: LIMIT }));
}

#[tokio::test]
async fn open_circuit_requests_no_credentials() {
    let (url, heads) = serve(&["503 Gone"]).await;
    let tokens = Arc::new(Tokens::default());
    let (service, _) = outgoing(&url, upstream());
    assert_eq!(send(&service, &url, caller(&tokens)).await.unwrap(), 503);
    let error = send(&service, &url, caller(&tokens)).await.unwrap_err();
    assert!(cause_ref::<CircuitOpen>(error.as_ref()).is_some(), "{error}");
    assert_eq!((tokens.asked.load(Ordering::Relaxed), heads.lock().unwrap().len()), (1, 1));
}

#[tokio::test]
async fn measures_requests_rejected_by_open_circuit() {
    let (url, _) = serve(&["503 Gone"]).await;
    let settings = vmcp_telemetry_export::Settings { prometheus: true, ..Default::default() };
    let telemetry = Telemetry::builder(settings).build().unwrap();
    let (service, _) = measured(&url, Credentials::None, Some(telemetry.outgoing()));
    assert_eq!(send(&service, &url, Caller::Gateway).await.unwrap(), 503);
    // Rejected requests of the gateway itself do not count as errors of the backend; those of callers do.
    assert!(send(&service, &url, Caller::Gateway).await.is_err());
    assert!(send(&service, &url, Caller::User(Identity::anonymous())).await.is_err());
    let text = telemetry.scrape().unwrap().text();
    let text = std::str::from_utf8(&text).unwrap();
    let errors = text.lines().filter(|line| line.starts_with("vmcp_backend_errors_total"));
    let open: Vec<_> = errors.filter(|line| line.contains("circuit_open")).collect();
    assert!(matches!(&open[..], [line] if line.ends_with(" 1")), "{text}");
    let requests = text.lines().find(|line| line.starts_with("vmcp_backend_requests_total"));
    assert!(requests.unwrap().ends_with(" 3"), "{text}");
}

#[tokio::test]
async fn timeout_opens_circuit() {
    let (url, _) = serve(&[]).await;
    let (service, breaker) = outgoing(&url, Credentials::None);
    let error = send(&service, &url, Caller::Gateway).await.unwrap_err();
    assert!(cause_ref::<Elapsed>(error.as_ref()).is_some(), "{error}");
    assert_eq!(breaker.state(), CircuitState::Open);
}

#[tokio::test]
async fn credential_lookup_does_not_count_toward_timeout() {
    let (url, _) = serve(&["200 OK"]).await;
    let tokens = Arc::new(Tokens { slow: true, ..Tokens::default() });
    let (service, breaker) = outgoing(&url, upstream());
    assert_eq!(send(&service, &url, caller(&tokens)).await.unwrap(), 200);
    assert_eq!(breaker.state(), CircuitState::Closed);
}

#[tokio::test]
async fn missing_credentials_do_not_open_circuit() {
    let (url, heads) = serve(&["200 OK"]).await;
    let (service, breaker) = outgoing(&url, upstream());
    let nobody = Caller::User(Identity::new("i", "s"));
    let error = send(&service, &url, nobody).await.unwrap_err();
    assert!(cause_ref::<CredentialError>(error.as_ref()).is_some(), "{error}");
    assert_eq!((breaker.state(), heads.lock().unwrap().len()), (CircuitState::Closed, 0));
}
